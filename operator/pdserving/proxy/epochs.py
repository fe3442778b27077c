"""Engine ids, read from each prefill pod's own bootstrap server.

An engine id is good for one start of one P. A stale one makes D wait for more than the abort timeout, so it is read
every two seconds, at once after a change in discovery or any failure that could mean a restart, and dropped as soon as
the server refuses the connection (the process is gone) or shows another one.

That leaves the moments between a restart and the next reading. They are closed by order: an id counts for an answer of
P only if it was read after the connection was made on which the answer came. Each new connection causes a reading.
"""

import asyncio
from functools import partial
from typing import Final

import msgspec

from pdserving.proxy.config import Config
from pdserving.proxy.http.fetch import FetchError, fetch
from pdserving.proxy.pool import Engine, Epoch, Pool

UNANSWERED_LIMIT: Final = 3
"""Bootstrap servers share a busy process; so many silent rounds are not yet a death."""
RETRY_INTERVAL: Final = 0.25
"""While an engine's ids are not known."""


class _Entry(msgspec.Struct):
    engine_id: str
    worker_addr: dict[str, dict[str, str]]


_decoder: Final = msgspec.json.Decoder(dict[str, _Entry])


def parse_query(body: bytes, ranks: tuple[int, int, int] | None) -> Epoch:
    """The answer of ``/query`` against the expected data, tensor and pipeline ranks; raises `msgspec.DecodeError`."""
    entries = _decoder.decode(body)
    shown = {
        (int(dp), int(tp), int(pp))
        for dp, entry in entries.items()
        for tp, stages in entry.worker_addr.items()
        for pp in stages
    }
    missing = tuple(f"dp{dp}/tp{tp}/pp{pp}" for dp, tp, pp in _expected(ranks, shown) if (dp, tp, pp) not in shown)
    return Epoch({int(dp): entry.engine_id for dp, entry in entries.items()}, missing)


def _expected(ranks: tuple[int, int, int] | None, shown: set[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    if ranks is None:
        return [] if shown else [(0, 0, 0)]
    data, tensor, pipeline = ranks
    return [(dp, tp, pp) for dp in range(data) for tp in range(tensor) for pp in range(pipeline)]


class EpochReader:
    """Keeps `Engine.epoch` of every prefill engine true."""

    def __init__(self, pool: Pool, config: Config) -> None:
        self._pool = pool
        self._interval = config.query_interval
        self._tasks: dict[Engine, asyncio.Task[None]] = {}
        self._wake: dict[Engine, asyncio.Event] = {}

    def recheck(self, engine: Engine) -> None:
        """Read again now; what is known stays in use meanwhile."""
        if engine in self._wake:
            self._wake[engine].set()

    async def run(self) -> None:
        try:
            while True:
                self._pool.changed.clear()
                self._follow()
                await self._pool.changed.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()

    def _follow(self) -> None:
        engines = set(self._pool.prefills)
        for engine in [engine for engine in self._tasks if engine not in engines]:
            self._tasks.pop(engine).cancel()
            del self._wake[engine]
        for engine in engines - set(self._tasks):
            self._wake[engine] = asyncio.Event()
            engine.endpoint.dialed = partial(self.recheck, engine)
            self._tasks[engine] = asyncio.create_task(self._read_forever(engine))
        for engine in engines:
            if engine.epoch is None:
                self._wake[engine].set()

    async def _read_forever(self, engine: Engine) -> None:
        wake, unanswered = self._wake[engine], 0
        while True:
            wake.clear()
            incarnation, asked = engine.seen.incarnation, engine.bootstrap.clock()
            try:
                body = await fetch(engine.bootstrap, b"/query", timeout=self._interval)
                epoch = parse_query(body, engine.seen.ranks)
            except (FetchError, msgspec.DecodeError, ValueError) as error:
                unanswered += 1
                refused = isinstance(error, FetchError) and error.refused
                self._failed(engine, str(error), final=refused or unanswered >= UNANSWERED_LIMIT)
            else:
                unanswered = 0
                if incarnation == engine.seen.incarnation:
                    self._pool.set_epoch(engine, epoch, asked)
            known = engine.epoch is not None and engine.epoch.complete
            try:
                await asyncio.wait_for(wake.wait(), self._interval if known else RETRY_INTERVAL)
            except TimeoutError:
                continue

    def _failed(self, engine: Engine, error: str, *, final: bool) -> None:
        if final:
            self._pool.drop_epoch(engine, error)
        else:
            engine.bootstrap_error = error
