"""Which keys need a look, and when.

A key is looked at by one worker at a time, however often it is added; added meanwhile, it is looked at once more. Of
several wishes for later only the earliest counts, since every look plans the next one anew. Failures back off
exponentially, with jitter so that they do not come back together.
"""

import asyncio
import contextlib
import heapq
import random
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 300.0


class WorkQueue(Generic[K]):
    """`clock` counts seconds; `spread` gives factors around 1 for the backoff."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        spread: Callable[[], float] = lambda: random.uniform(0.75, 1.25),  # noqa: S311 - not for secrets
        on_wait: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._spread = spread
        self._on_wait = on_wait
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._pushed = 0
        self._active: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()

    def add(self, key: K, after: float = 0.0) -> None:
        """Look at the key, `after` so many seconds at the latest."""
        due = self._clock() + after
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._push(key, due)

    def retry(self, key: K) -> float:
        """Look at the key again after a failure; the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(FIRST_RETRY * 2.0 ** min(failures, 30), LAST_RETRY) * self._spread()
        self.add(key, delay)
        return delay

    def forget_failures(self, key: K) -> None:
        self._failures.pop(key, None)

    def drop(self, key: K) -> None:
        """The key is no more."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The key that has been due for longest and is in nobody's hands; to be given back with `done`."""
        while True:
            key, wait = self._pop()
            if key is not None:
                return key
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    def done(self, key: K) -> None:
        del self._active[key]
        if key in self._due:
            self._push(key, self._due[key])

    @property
    def depth(self) -> int:
        """Keys that are due and wait for a worker."""
        now = self._clock()
        return sum(due <= now for key, due in self._due.items() if key not in self._active)

    @property
    def longest_active(self) -> float:
        """For how long the oldest look has been going on, in seconds."""
        return self._clock() - min(self._active.values(), default=self._clock())

    def _push(self, key: K, due: float) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (due, self._pushed, key))
        self._changed.set()

    def _pop(self) -> tuple[K | None, float | None]:
        """A due key, or how long to wait for the next. Entries that a later wish has overtaken are skipped here."""
        now = self._clock()
        while self._heap:
            due, _, key = self._heap[0]
            if due > now:
                return None, due - now
            heapq.heappop(self._heap)
            if self._due.get(key) == due and key not in self._active:
                del self._due[key]
                self._active[key] = now
                self._on_wait(now - due)
                return key, None
        return None, None
