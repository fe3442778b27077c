"""One timer wheel for every wait in the proxy.

`asyncio.timeout` or `call_later` for each wait of each request would cost more than the request. Here one tick every
100 ms looks at the deadlines that are due. Moving a deadline later, the usual case (each chunk of a stream does it),
only writes its time: the wheel notices when the old time comes.
"""

import asyncio
from collections.abc import Callable

TICK = 0.1


class Deadline:
    """One wait that can be moved. ``action`` is called once, after `at` has passed."""

    __slots__ = ("action", "at", "slot")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action
        self.at = 0.0
        """Loop time; may be moved later by assignment."""
        self.slot: set[Deadline] | None = None
        """Where the wheel keeps it."""


class Wheel:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._slots: dict[int, set[Deadline]] = {}
        self._last = int(clock() / TICK)
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, deadline: Deadline, at: float) -> None:
        """Fire ``deadline`` at ``at``, whatever it was armed for before."""
        self.cancel(deadline)
        deadline.at = at
        self._put(deadline)

    def cancel(self, deadline: Deadline) -> None:
        slot = deadline.slot
        if slot is not None:
            slot.discard(deadline)
            deadline.slot = None

    def _put(self, deadline: Deadline) -> None:
        tick = max(int(deadline.at / TICK) + 1, self._last + 1)
        slot = self._slots.get(tick)
        if slot is None:
            slot = self._slots[tick] = set()
        slot.add(deadline)
        deadline.slot = slot

    def advance(self) -> None:
        """Fire what is due; put what was moved where it belongs now."""
        now = self.clock()
        tick = int(now / TICK)
        due = [self._slots.pop(t) for t in range(self._last + 1, tick + 1) if t in self._slots]
        self._last = tick
        for slot in due:
            while slot:
                deadline = slot.pop()
                deadline.slot = None
                if deadline.at > now:
                    self._put(deadline)
                else:
                    deadline.action()

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        self.advance()
        self._timer = loop.call_later(TICK, self.run, loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
