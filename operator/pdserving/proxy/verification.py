"""Which pairs of engines have proven that KV cache moves between them and gives right tokens, and which comes next.

Each proxy runs canaries for itself, one at a time and at most `BURST` in any minute: first through every pair, in
rounds in which each engine occurs, which also makes the pairs' connections; later, once an interval for each engine,
through its pairs in turn. Of a large group only `MAX_PAIRS` pairs are seen.

What is known of a pair holds for one start of both engines. A failed canary is repeated at once, and only a second
failure counts; then routing avoids the pair, and an engine whose pairs all failed, while there are others. Where the
counters of real traffic accuse D, what was proven holds no longer and a canary decides.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pdserving.api import conditions as c
from pdserving.api.labels import DECODE, PAIR_FAILED, PAIR_UNKNOWN, PAIR_VERIFIED
from pdserving.proxy.canary import run_canary
from pdserving.proxy.canary_engine import Outcome
from pdserving.proxy.pool import Engine
from pdserving.proxy.transfers import NOT_MOVING

if TYPE_CHECKING:
    from pdserving.proxy.gateway import Gateway

logger = logging.getLogger(__name__)

BURST, MINUTE = 6, 60.0
MAX_PAIRS: Final = 256
PAUSE: Final = 1.0
"""Seconds between two looks, give or take a half: several proxies should not meet at one engine."""
RETRY_SECONDS: Final = 5.0
"""After a canary that said nothing, give or take a half; engines that were busy are only asked for their load."""
REFUSED_SECONDS: Final = 60.0
FAILED_SECONDS: Final = 30.0
STRIKES: Final = 2

_uniform = random.Random().uniform  # noqa: S311 - spreads load
_ORDER: Final = (PAIR_UNKNOWN, PAIR_FAILED, PAIR_VERIFIED)

Pair = tuple[Engine, Engine]


@dataclass(slots=True)
class Record:
    starts: tuple[str, ...]
    """Engine ids and incarnations of which it speaks."""
    state: str = PAIR_UNKNOWN
    reason: str = c.VERIFYING
    text: str = ""
    since: float = 0.0
    """When a canary last confirmed the state."""
    due: float = 0.0
    strikes: int = 0
    runs: int = 0

    def take(self, outcome: Outcome, now: float, interval: float) -> None:
        self.due = now + RETRY_SECONDS * _uniform(0.5, 1.5)
        if outcome.reason == c.VERIFIED:
            self.strikes = 0
            self._conclude(PAIR_VERIFIED, outcome, now, interval)
        elif outcome.reason in c.SYMPTOMS:
            self.strikes += 1
            if self.strikes >= STRIKES:
                self._conclude(PAIR_FAILED, outcome, now, FAILED_SECONDS)
            else:
                self.due = now
        elif self.state == PAIR_UNKNOWN:
            self.reason, self.text = outcome.reason, outcome.text
        if outcome.reason == c.CANARY_REFUSED:
            self.due = now + REFUSED_SECONDS

    def _conclude(self, state: str, outcome: Outcome, now: float, again: float) -> None:
        self.state, self.reason, self.text, self.since, self.due = state, outcome.reason, outcome.text, now, now + again

    def doubt(self, now: float) -> None:
        self.state, self.reason, self.text, self.due = PAIR_UNKNOWN, c.VERIFYING, "", now


class Verification:
    def __init__(self, gateway: "Gateway", interval: float) -> None:
        self._gateway = gateway
        self._interval = interval
        self._pairs: Sequence[Pair] = ()
        """Those that can be used now."""
        self._records: dict[Pair, Record] = {}
        self._started: deque[float] = deque(maxlen=BURST)
        self._last: dict[Engine, float] = {}
        """When each engine was last in a canary that ran."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PAUSE * _uniform(0.5, 1.5))
            try:
                await self.step()
            except Exception:  # a defect here must not end a proxy that serves
                logger.exception("a canary ended in a way that nobody foresaw")

    async def step(self) -> Outcome | None:
        """The canary that is due, if there is one and it may run now."""
        gateway = self._gateway
        now = gateway.wheel.clock()
        self._refresh(now)
        self._condemn()
        pair = self._choose(now)
        if pair is None or gateway.draining or (len(self._started) == BURST and self._started[0] + MINUTE > now):
            return None
        prefill, decode = pair
        record = self._records[pair]
        ranks = prefill.targets
        outcome = await run_canary(gateway, ranks[record.runs % len(ranks)], decode.targets[0])
        if outcome.reason != c.ENGINES_BUSY:
            self._started.append(now)
            record.runs += 1
            self._last |= dict.fromkeys(pair, now)
        before = record.state
        record.take(outcome, gateway.wheel.clock(), self._interval * _uniform(0.9, 1.1))
        gateway.metrics.canaries.add(outcome.reason)
        if record.state != before:
            _log(pair, record)
            self._condemn()
        return outcome

    def _refresh(self, now: float) -> None:
        """Records of the pairs that there are, new ones for engines that were started anew."""
        self._records = {pair: r for pair, r in self._records.items() if not (pair[0].gone or pair[1].gone)}
        self._pairs = list_pairs(self._gateway.pool.engines.values())
        for pair in self._pairs:
            record, starts = self._records.get(pair), _identify(pair)
            if record is None or record.starts != starts:
                self._records[pair] = Record(starts)
            elif record.state == PAIR_VERIFIED and self._gateway.transfers.flow(pair[1]).state == NOT_MOVING:
                record.doubt(now)
        self._last = {engine: when for engine, when in self._last.items() if not engine.gone}

    def _condemn(self) -> None:
        """Tell routing which pairs failed, and which engines failed with everybody that they were paired with."""
        failed = {pair for pair, record in self._records.items() if record.state == PAIR_FAILED}
        if failed != self._gateway.pairs.condemned:
            self._gateway.pairs.condemned = failed
            self._gateway.pool.distrust(find_suspects(self._records, failed))

    def _choose(self, now: float) -> Pair | None:
        """Once failed first, then the unknown in their order, then the longest unconfirmed."""

        def rank(pair: Pair) -> tuple[bool, int, float]:
            record = self._records[pair]
            return record.strikes != 1, _ORDER.index(record.state), record.since

        return min((pair for pair in self._pairs if self._is_due(pair, now)), key=rank, default=None)

    def _is_due(self, pair: Pair, now: float) -> bool:
        record = self._records[pair]
        if record.due > now:
            return False
        rested = any(self._last[engine] + self._interval <= now for engine in pair if engine in self._last)
        return record.state != PAIR_VERIFIED or record.strikes > 0 or rested

    def describe(self) -> list[dict[str, Any]]:
        """For ``/debug/pool``; ages are seconds, comparable between proxies."""
        now = self._gateway.wheel.clock()
        return [
            {
                "prefill": prefill.seen.pod,
                "prefill_uid": prefill.seen.uid,
                "decode": decode.seen.pod,
                "decode_uid": decode.seen.uid,
                "state": record.state,
                "reason": record.reason,
                "message": record.text,
                "age": round(now - record.since, 1) if record.since else None,
            }
            for (prefill, decode), record in self._records.items()
            if not prefill.gone and not decode.gone and record.starts == _identify((prefill, decode))
        ]


def _identify(pair: Pair) -> tuple[str, ...]:
    prefill, decode = pair
    ids = prefill.epoch.engine_ids.values() if prefill.epoch else ()
    return (prefill.seen.incarnation, decode.seen.incarnation, *ids)


def list_pairs(engines: Iterable[Engine]) -> Sequence[Pair]:
    """Of usable engines of the same lane, in rounds in which each engine occurs; at most `MAX_PAIRS` of a lane."""
    lanes: dict[str, tuple[list[Engine], list[Engine]]] = {}
    for engine in sorted(engines, key=lambda engine: engine.seen.pod):
        if engine.usable:
            lanes.setdefault(engine.seen.lane, ([], []))[engine.seen.role == DECODE].append(engine)
    return list(dict.fromkeys(pair for both in lanes.values() for pair in islice(_walk(*both), MAX_PAIRS)))


def find_suspects(pairs: Collection[Pair], failed: Collection[Pair]) -> set[Engine]:
    """Engines all of whose pairs failed."""
    innocent = {engine for pair in pairs if pair not in failed for engine in pair}
    return {engine for pair in failed for engine in pair} - innocent


def _walk(prefills: Sequence[Engine], decodes: Sequence[Engine]) -> Iterator[Pair]:
    if prefills and decodes:
        for shift in range(len(decodes)):
            for index in range(max(len(prefills), len(decodes))):
                yield prefills[index % len(prefills)], decodes[(index + shift) % len(decodes)]


def _log(pair: Pair, record: Record) -> None:
    fields = {"prefill": pair[0].seen.pod, "decode": pair[1].seen.pod, "reason": record.reason, "text": record.text}
    level = logging.WARNING if record.state == PAIR_FAILED else logging.INFO
    logger.log(level, "a pair of engines was judged by canaries", extra={"fields": fields})
