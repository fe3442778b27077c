"""One timer wheel for every wait in the proxy.

`asyncio.timeout` or `call_later` for each wait of each request would cost more than the request. Here one tick every
100 ms looks at the deadlines that are due. Moving a deadline later, the usual case (each chunk of a stream and most
steps of a request do it), only writes its time: the wheel notices when the old time comes.
"""

import asyncio
from collections.abc import Callable

TICK = 0.1
NEVER = float("inf")


class Deadline:
    """One wait that can be moved. ``action`` is called once, after `at` has passed."""

    __slots__ = ("action", "at", "slot", "tick")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action
        self.at = NEVER
        """Loop time; may be moved later by assignment while armed."""
        self.slot: set[Deadline] | None = None
        """Where the wheel keeps it."""
        self.tick = NEVER
        """When the wheel looks at it next, never later than `at` asks for."""


class Wheel:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._slots: dict[int, set[Deadline]] = {}
        self._last = int(clock() / TICK)
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, deadline: Deadline, at: float) -> None:
        """Fire ``deadline`` at ``at``, whatever it was armed for before."""
        deadline.at = at
        if at < (deadline.tick - 1) * TICK:
            self._take_out(deadline)
            self._put(deadline)

    def cancel(self, deadline: Deadline) -> None:
        """Forget it: the wheel no longer keeps its owner alive."""
        deadline.at = NEVER
        self._take_out(deadline)

    def _take_out(self, deadline: Deadline) -> None:
        if deadline.slot is not None:
            deadline.slot.discard(deadline)
        deadline.slot, deadline.tick = None, NEVER

    def _put(self, deadline: Deadline) -> None:
        tick = max(int(deadline.at / TICK) + 1, self._last + 1)
        slot = self._slots.get(tick)
        if slot is None:
            slot = self._slots[tick] = set()
        slot.add(deadline)
        deadline.slot, deadline.tick = slot, tick

    def advance(self) -> None:
        """Fire what is due; put what was moved where it belongs now."""
        now = self.clock()
        tick = int(now / TICK)
        due = [self._slots.pop(t) for t in range(self._last + 1, tick + 1) if t in self._slots]
        self._last = tick
        for slot in due:
            while slot:
                deadline = slot.pop()
                deadline.slot, deadline.tick = None, NEVER
                if deadline.at > now:
                    self._put(deadline)
                else:
                    deadline.action()

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(TICK, self.run, loop)  # first: an action that fails must not stop the clock
        self.advance()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
