"""Which prefill and which decode engine serve a request.

Load is prompt tokens in flight. Of more than two candidates two are drawn and the lighter one wins: with several
proxies, always taking the least loaded would send everybody to the same engine. Ties are broken at random. A target
that has just become usable counts as more loaded than it is, so that it is ramped up, not flooded.
"""

import random
from collections.abc import Collection, Sequence
from typing import Final

from pdserving.proxy.pool import Engine, Lane, Target

_random = random.Random().random  # noqa: S311 - load, not secrets

ONLY: Final = "only"
LEAST_LOADED: Final = "least_loaded"
RETRY: Final = "retry"
"""Another one had failed before."""
QUARANTINED: Final = "quarantined"
"""No decode engine is left but those to avoid with this prefill engine."""

RAMP_SECONDS: Final = 10.0
RAMP_START: Final = 0.1
"""Share of a full load that a fresh target takes at first."""


Choice = tuple[Target, str]
"""What was chosen and why, by one of the few reasons above. A bare tuple: a named one costs as much as choosing."""


def choose(targets: Sequence[Target], now: float, exclude: Collection[Engine] = ()) -> Choice | None:
    if exclude:
        targets = [target for target in targets if target.engine not in exclude]
    count = len(targets)
    if count < 2:
        return (targets[0], ONLY) if count else None
    first = int(_random() * count)
    second = int(_random() * (count - 1))
    second += second >= first
    a, b = targets[first], targets[second]
    return (a if _weigh(a, now) <= _weigh(b, now) else b), LEAST_LOADED


def choose_prefill(lanes: Sequence[Lane], now: float, exclude: Collection[Engine]) -> Choice | None:
    """A prefill target whose lane can also decode."""
    usable = [lane for lane in lanes if lane.decodes and _has_other(lane.prefills, exclude)]
    if not usable:
        return None
    lane = usable[0] if len(usable) == 1 else _choose_lane(usable)
    chosen = choose(lane.prefills, now, exclude)
    return _mark(chosen, RETRY) if exclude else chosen


def _mark(chosen: Choice | None, reason: str) -> Choice | None:
    return None if chosen is None else (chosen[0], reason)


def _has_other(targets: Sequence[Target], exclude: Collection[Engine]) -> bool:
    return bool(targets) and (not exclude or any(target.engine not in exclude for target in targets))


def _choose_lane(lanes: Sequence[Lane]) -> Lane:
    """At random by their number of prefill targets."""
    drawn = int(_random() * sum(len(lane.prefills) for lane in lanes))
    for lane in lanes:
        drawn -= len(lane.prefills)
        if drawn < 0:
            return lane
    return lanes[-1]


def choose_decode(lanes: Sequence[Lane], now: float, exclude: Collection[Engine]) -> Choice | None:
    """A decode target of any lane, for a prompt that it computes itself."""
    targets = lanes[0].decodes if len(lanes) == 1 else [target for lane in lanes for target in lane.decodes]
    chosen = choose(targets, now, exclude)
    return _mark(chosen, RETRY) if exclude else chosen


def _weigh(target: Target, now: float) -> float:
    age = now - target.since
    if age >= RAMP_SECONDS:
        return target.load
    return (target.load + 1) / max(RAMP_START, age / RAMP_SECONDS)


def choose_decode_in(
    lanes: Sequence[Lane], name: str, now: float, failed: tuple[Engine, ...], avoid: tuple[Engine, ...]
) -> Choice | None:
    """A decode target of the lane in which the prompt was prefilled; one of ``avoid`` only if there is no other."""
    for lane in lanes:
        if lane.name == name:
            chosen = choose(lane.decodes, now, failed + avoid)
            if chosen is None and avoid:
                return _mark(choose(lane.decodes, now, failed), QUARANTINED)
            return _mark(chosen, RETRY) if failed else chosen
    return None
