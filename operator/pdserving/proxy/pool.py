"""The engines that there are, and which of them may serve the next request.

`Pool.lanes` holds only what may be used now: ready pods, prefill ranks with a known engine id, and both roles of the
same lane (engines of different lanes can't exchange KV cache). It is rebuilt when something changes, never per request.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from pdserving.api import labels
from pdserving.proxy.http.upstream import Endpoint


@dataclass(frozen=True, slots=True)
class Sighting:
    """One engine as discovery sees it. ``incarnation`` changes whenever its process is another one."""

    role: str
    pod: str
    uid: str
    host: str
    port: int
    lane: str
    ready: bool
    incarnation: str = ""
    ranks: tuple[int, int, int] | None = None
    """Data, tensor and pipeline ranks that a complete bootstrap server shows; None: not known."""
    bootstrap_port: int = labels.BOOTSTRAP_PORT

    @property
    def identity(self) -> tuple[str, str, str, str, int]:
        return (self.role, self.pod, self.uid, self.host, self.port)


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one start of a P says of itself: engine id by data-parallel rank, and the ranks it does not show."""

    engine_ids: dict[int, str]
    missing: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return bool(self.engine_ids) and not self.missing


class Engine:
    """A pod that serves; its load and its connections outlive what discovery says of it meanwhile."""

    __slots__ = (
        "bootstrap",
        "bootstrap_error",
        "distrusted",
        "endpoint",
        "epoch",
        "gone",
        "in_flight",
        "name",
        "seen",
        "sidelined",
        "targets",
        "verified",
        "waiting",
    )

    def __init__(self, seen: Sighting, loop: asyncio.AbstractEventLoop, connect_timeout: float) -> None:
        self.seen = seen
        self.name = seen.pod.encode()
        self.endpoint = Endpoint(seen.host, seen.port, loop, connect_timeout)
        self.bootstrap = Endpoint(seen.host, seen.bootstrap_port, loop, connect_timeout)
        self.epoch: Epoch | None = None
        self.bootstrap_error: str | None = None
        self.verified = 0.0
        """When the bootstrap server was asked that gave the current epoch."""
        self.waiting: list[Callable[[], None]] = []
        """Requests that go on when the epoch was read again, or dropped."""
        self.in_flight = 0
        self.targets: list[Target] = [] if seen.role == labels.PREFILL else [Target(self, 0, "")]
        self.gone = False
        self.sidelined = False
        """Just failed; used only if nothing else is there."""
        self.distrusted = False
        """Canaries failed with every engine that they paired it with; others come first, even sidelined ones."""

    @property
    def bootstrap_url(self) -> str:
        return f"http://{self.bootstrap.authority.decode()}"

    @property
    def usable(self) -> bool:
        """Ready, and if it is P, with a known and complete set of engine ids."""
        if not self.seen.ready:
            return False
        return self.seen.role == labels.DECODE or (self.epoch is not None and self.epoch.complete)

    def ramp_up(self, now: float) -> None:
        """As fresh from now on."""
        for target in self.targets:
            target.since = now

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        for go_on in waiting:
            go_on()


class Target:
    """What routing chooses: a decode engine, or one data-parallel rank of a prefill engine in one epoch."""

    __slots__ = ("engine", "engine_id", "header", "load", "rank", "since")

    def __init__(self, engine: Engine, rank: int, engine_id: str, *, many: bool = False, since: float = 0.0) -> None:
        self.engine = engine
        self.rank = rank
        self.engine_id = engine_id
        self.header = b"x-data-parallel-rank: %d\r\n" % rank if many else b""
        self.load = 0
        """Prompt tokens in flight."""
        self.since = since
        """When it became usable."""

    @property
    def valid(self) -> bool:
        """Whether what it was chosen for still holds: its pod is there and its engine id is the current one."""
        return not self.engine.gone and self in self.engine.targets

    def enter(self, tokens: int) -> None:
        self.load += tokens
        self.engine.in_flight += 1

    def leave(self, tokens: int) -> None:
        self.load -= tokens
        self.engine.in_flight -= 1


@dataclass(slots=True)
class Lane:
    name: str
    prefills: list[Target] = field(default_factory=list)
    decodes: list[Target] = field(default_factory=list)


class Pool:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, connect_timeout: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._loop = loop
        self._connect_timeout = connect_timeout
        self._clock = clock
        self.engines: dict[tuple[str, str, str, str, int], Engine] = {}
        self.lanes: list[Lane] = []
        self.changed = asyncio.Event()
        """Set when an engine came, went, or restarted: somebody should read its engine ids."""

    def update(self, sightings: Iterable[Sighting]) -> None:
        """Make the pool hold just these engines."""
        wanted = {sighting.identity: sighting for sighting in sightings}
        for identity in [identity for identity in self.engines if identity not in wanted]:
            self._remove(self.engines.pop(identity))
        roles = {engine.seen.role for engine in self.engines.values()}
        for identity, sighting in wanted.items():
            engine = self.engines.get(identity)
            if engine is None:
                self.engines[identity] = self._add(sighting, beside_others=sighting.role in roles)
            else:
                self._refresh(engine, sighting)
        self.rebuild()

    def _add(self, sighting: Sighting, *, beside_others: bool) -> Engine:
        """An engine that joins others may be ready at first sight, and is ramped up all the same."""
        engine = Engine(sighting, self._loop, self._connect_timeout)
        if beside_others:
            engine.ramp_up(self._clock())
        self.changed.set()
        return engine

    def _refresh(self, engine: Engine, sighting: Sighting) -> None:
        if sighting.incarnation != engine.seen.incarnation:
            self.drop_epoch(engine, "the engine was restarted")
            self.changed.set()
            engine.ramp_up(self._clock())
        elif sighting.ready and not engine.seen.ready and sighting.role == labels.DECODE:
            engine.ramp_up(self._clock())
        engine.seen = sighting

    def _remove(self, engine: Engine) -> None:
        engine.gone = True
        engine.wake()
        engine.endpoint.close()
        engine.bootstrap.close()

    def set_epoch(self, engine: Engine, epoch: Epoch, asked: float) -> None:
        """``asked``: when the question was sent."""
        engine.bootstrap_error = None
        engine.verified = asked
        if epoch != engine.epoch:
            self._replace_epoch(engine, epoch)
        engine.wake()

    def _replace_epoch(self, engine: Engine, epoch: Epoch) -> None:
        engine.epoch = epoch
        now, many = self._clock(), len(epoch.engine_ids) > 1
        engine.targets = [
            Target(engine, rank, engine_id, many=many, since=now)
            for rank, engine_id in sorted(epoch.engine_ids.items())
        ]
        self.rebuild()

    def drop_epoch(self, engine: Engine, error: str) -> None:
        """Never use the engine ids known so far again, unless its bootstrap server repeats them."""
        engine.bootstrap_error = error
        if engine.seen.role == labels.PREFILL and engine.epoch is not None:
            engine.epoch, engine.targets = None, []
            self.rebuild()
        engine.wake()

    def rebuild(self) -> None:
        lanes: dict[str, Lane] = {}
        for engine in self.engines.values():
            lane = lanes.setdefault(engine.seen.lane, Lane(engine.seen.lane))
            if engine.usable:
                targets = lane.decodes if engine.seen.role == labels.DECODE else lane.prefills
                targets += engine.targets
        for lane in lanes.values():
            lane.prefills, lane.decodes = _take_best(lane.prefills), _take_best(lane.decodes)
        self.lanes = list(lanes.values())

    def sideline(self, engine: Engine, *, aside: bool) -> None:
        """Use others first, if there are any."""
        if engine.sidelined != aside:
            engine.sidelined = aside
            self.rebuild()

    def distrust(self, engines: Collection[Engine]) -> None:
        """Use others than these first, if there are any."""
        for engine in self.engines.values():
            engine.distrusted = engine in engines
        self.rebuild()

    @property
    def prefills(self) -> list[Engine]:
        return [engine for engine in self.engines.values() if engine.seen.role == labels.PREFILL]

    @property
    def decodes(self) -> list[Engine]:
        return [engine for engine in self.engines.values() if engine.seen.role == labels.DECODE]

    def describe(self) -> dict[str, Any]:
        """For ``/debug/pool``: the operator reads it."""
        return {
            "ready": self.ready,
            "prefill": [describe_prefill(engine) for engine in self.prefills],
            "decode": [describe(engine) for engine in self.decodes],
        }

    @property
    def ready(self) -> bool:
        """Whether a request can be served at all."""
        return any(lane.decodes for lane in self.lanes)


def _take_best(targets: list[Target]) -> list[Target]:
    """Those of engines with the least against them."""
    least = min(map(_rate_doubt, targets), default=0)
    return [target for target in targets if _rate_doubt(target) == least]


def _rate_doubt(target: Target) -> int:
    return 2 * target.engine.distrusted + target.engine.sidelined


def describe(engine: Engine) -> dict[str, Any]:
    seen = engine.seen
    return {
        "pod": seen.pod,
        "uid": seen.uid,
        "address": seen.host,
        "lane": seen.lane,
        "ready": seen.ready,
        "in_flight": engine.in_flight,
    }


def describe_prefill(engine: Engine) -> dict[str, Any]:
    epoch = engine.epoch
    return describe(engine) | {
        "engine_ids": {str(rank): engine_id for rank, engine_id in epoch.engine_ids.items()} if epoch else {},
        "missing_ranks": list(epoch.missing) if epoch else [],
        "bootstrap_error": engine.bootstrap_error,
    }
