"""Whether KV cache really arrives at each decode engine, by the engine's own counters.

With the recompute policy a dead fabric is invisible to clients: D computes every prompt a second time, and every
answer is right. So what D should have fetched is compared with what it says it did.

D counts for everybody, a proxy only what it asked for itself, so only this is an alarm: D was asked to fetch, computed
as much instead, and fetched nothing at all.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pdserving.proxy.http.fetch import FetchError
from pdserving.proxy.pool import Engine, Pool
from pdserving.proxy.readings import Reading, read

INTERVAL: Final = 5.0
ENOUGH: Final = 64
"""Prompt tokens: with fewer, whole prompts may lie in one unfinished block, which is never fetched."""
MOVING, NOT_MOVING, UNKNOWN = "moving", "not_moving", "unknown"


@dataclass(slots=True)
class Flow:
    """One decode engine: what it was asked to fetch, and what it did, since KV cache last arrived."""

    state: str = UNKNOWN
    asked: int = 0
    """Prompt tokens of answers for which it should have fetched."""
    computed: float = 0.0
    last: Reading | None = field(default=None, repr=False)

    def read(self, now: Reading) -> None:
        before, self.last = self.last, now
        if before is None or now.fetched < before.fetched:  # the first reading, or a restarted engine
            self.asked, self.computed = 0, 0.0
        elif now.fetched > before.fetched:
            self.state, self.asked, self.computed = MOVING, 0, 0.0
        else:
            self.computed += now.computed - before.computed
            if self.asked >= ENOUGH and self.computed >= self.asked / 2:
                self.state = NOT_MOVING

    def describe(self) -> Mapping[str, Any]:
        return {"state": self.state, "asked": self.asked, "computed": int(self.computed)}


class TransferWatch:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._flows: dict[Engine, Flow] = {}

    def asked(self, engine: Engine, tokens: int) -> None:
        """D answered a request whose KV cache it should have fetched."""
        self.flow(engine).asked += tokens

    def own(self, engine: Engine, tokens: int) -> None:
        """D computed a prompt of the proxy's own, as it was meant to."""
        self.flow(engine).computed -= tokens

    def flow(self, engine: Engine) -> Flow:
        return self._flows.setdefault(engine, Flow())

    async def run(self) -> None:
        while True:
            await self.read_all()
            await asyncio.sleep(INTERVAL)

    async def read_all(self) -> None:
        engines = [engine for engine in self._pool.decodes if engine.seen.ready]
        self._flows = {engine: flow for engine, flow in self._flows.items() if not engine.gone}
        await asyncio.gather(*(self._read(engine) for engine in engines))

    async def _read(self, engine: Engine) -> None:
        """An engine that does not answer keeps its state: other parts of the proxy judge that."""
        try:
            reading = await read(engine)
        except FetchError:
            return
        if reading is not None:
            self.flow(engine).read(reading)
