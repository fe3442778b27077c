"""How fast prefill engines send KV cache, measured on canaries by P's own histograms of transfers (vLLM 0.33).

The histograms give sums, and transfers that run at the same time share a link: bytes over seconds says too little of a
busy engine's path. So only canaries of an idle engine are measured, and for each it is concluded what the path can have
carried at most, with everything in the path's favour: all transfers that ended between the two looks ran at once, and
`SETUP_SECONDS` of each were no transfer. A first canary between two engines makes their connection and is not counted;
of the last `MEASURES` others the best is. What even so is slow is slow.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pdserving.proxy.pool import Engine
from pdserving.proxy.readings import Reading

MEASURES: Final = 4
ENOUGH: Final = 16 << 20
"""Bytes of one measure: at 400 Gb/s a third of a millisecond, with less nothing but latency is measured."""
SETUP_SECONDS: Final = 0.005
LEAST_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class Measure:
    rate: float
    """Bytes a second of one transfer."""
    ceiling: float
    """Bytes a second that the path can have carried at most."""


def measure(before: Reading, after: Reading) -> Measure | None:
    """What was sent between two readings of a P; None if it was too little, or the counters began anew."""
    count = (after.sent or 0.0) - (before.sent or 0.0)
    size, seconds = after.sent_bytes - before.sent_bytes, after.sent_seconds - before.sent_seconds
    if count <= 0 or seconds <= 0 or size < ENOUGH:
        return None
    return Measure(rate=size / seconds, ceiling=size / max(seconds / count - SETUP_SECONDS, LEAST_SECONDS))


@dataclass(slots=True)
class Rate:
    """One prefill engine, in one of its starts."""

    incarnation: str
    met: dict[Engine, str] = field(default_factory=dict)
    """Decode engines to which it has a connection, by their incarnation."""
    last: deque[Measure] = field(default_factory=lambda: deque(maxlen=MEASURES))


class Rates:
    def __init__(self) -> None:
        self._rates: dict[Engine, Rate] = {}

    def take(self, prefill: Engine, decode: Engine, before: Reading, after: Reading) -> None:
        """A canary's transfer to D came between these readings of P."""
        rate = self._find(prefill)
        rate.met = {known: incarnation for known, incarnation in rate.met.items() if not known.gone}
        met = rate.met.get(decode) == decode.seen.incarnation
        rate.met[decode] = decode.seen.incarnation
        measured = measure(before, after)
        if met and measured is not None and not (before.running or before.waiting):
            rate.last.append(measured)

    def _find(self, engine: Engine) -> Rate:
        self._rates = {known: rate for known, rate in self._rates.items() if not known.gone}
        rate = self._rates.get(engine)
        if rate is None or rate.incarnation != engine.seen.incarnation:
            rate = self._rates[engine] = Rate(engine.seen.incarnation)
        return rate

    def describe(self, engine: Engine) -> Mapping[str, Any] | None:
        """Bytes a second, for ``/debug/pool``; None until there are enough measures of the engine's present start."""
        rate = self._rates.get(engine)
        if rate is None or rate.incarnation != engine.seen.incarnation or len(rate.last) < MEASURES:
            return None
        return {
            "rate": round(max(measured.rate for measured in rate.last)),
            "ceiling": round(max(measured.ceiling for measured in rate.last)),
        }
