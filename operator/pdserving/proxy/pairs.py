"""Pairs of a prefill and a decode engine between which KV cache does not arrive.

Each of the two can be healthy with everybody else: a wrong NIC, a network policy, a GID. So it is the pair that is
quarantined, for a time that doubles; when it is over one request probes it. A pair that canaries found wrong is avoided
until a canary finds it right: its answers can look like any other's. Both are advice: if nothing else is left, the pair
is used.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from pdserving.proxy.pool import Engine

THRESHOLD: Final = 3
"""Failures in a row."""
FIRST_SECONDS, LAST_SECONDS = 5.0, 60.0


@dataclass(slots=True)
class Pair:
    failures: int = 0
    seconds: float = 0.0
    until: float = 0.0
    """End of the quarantine; 0: none."""
    cause: str = ""


class Pairs:
    def __init__(self) -> None:
        self._pairs: dict[Engine, dict[Engine, Pair]] = {}
        self.condemned: Collection[tuple[Engine, Engine]] = ()
        """Prefill and decode engines between which canaries failed."""

    def failed(self, prefill: Engine, decode: Engine, cause: str, now: float) -> None:
        self._forget_gone()
        pair = self._pairs.setdefault(prefill, {}).setdefault(decode, Pair())
        pair.failures += 1
        pair.cause = cause
        if pair.failures >= THRESHOLD:
            pair.seconds = min(pair.seconds * 2 or FIRST_SECONDS, LAST_SECONDS)
            pair.until = now + pair.seconds

    def succeeded(self, prefill: Engine, decode: Engine) -> None:
        if self._pairs and prefill in self._pairs:
            self._pairs[prefill].pop(decode, None)
            if not self._pairs[prefill]:
                del self._pairs[prefill]

    def blocked(self, prefill: Engine, now: float) -> tuple[Engine, ...]:
        """Decode engines to avoid with this prefill engine."""
        if not self._pairs and not self.condemned:
            return ()
        closed = (decode for decode, pair in self._pairs.get(prefill, {}).items() if self._is_closed(pair, now))
        return (*closed, *(decode for owner, decode in self.condemned if owner is prefill))

    def _is_closed(self, pair: Pair, now: float) -> bool:
        if not pair.until:
            return False
        if pair.until > now:
            return True
        pair.until = now + pair.seconds  # this request is the probe; others stay away until it has succeeded
        return False

    def _forget_gone(self) -> None:
        for prefill in [engine for engine in self._pairs if engine.gone]:
            del self._pairs[prefill]
        for decodes in self._pairs.values():
            for decode in [engine for engine in decodes if engine.gone]:
                del decodes[decode]

    def describe(self, now: float) -> list[dict[str, Any]]:
        """For ``/debug/pairs``: every pair that failed since it last worked."""
        return [
            {
                "prefill": prefill.seen.pod,
                "decode": decode.seen.pod,
                "failures": pair.failures,
                "cause": pair.cause,
                "quarantined_for": round(max(pair.until - now, 0.0), 1),
            }
            for prefill, decodes in self._pairs.items()
            for decode, pair in decodes.items()
        ]
