"""Where a lane's engines stand to one another, as parts of an engine pod.

One term for both roles, and it matches the very pods that carry it. So a required term can't lock a group out: the
scheduler lets a pod through that matches its own term while no other pod does, and every later one has to follow it.
Two one-sided terms (P near D, D near P) would wait for each other for ever.

The term names the lane. Another lane shares no KV cache with this one, and if it had to stand where the old one does, a
change would need twice the devices in one domain.
"""

from collections.abc import Iterator
from typing import Any, Final

from pdserving.api import labels
from pdserving.core.group import Group
from pdserving.core.names import Role
from pdserving.core.resources.metadata import build_engine_selector, build_selector
from pdserving.core.template import Owned

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
WEIGHT: Final = 100
"""The most there is: it stands against the scheduler's own liking for empty nodes."""


def build_topology(group: Group, role: Role, lane: str) -> dict[str, Any]:
    """The pod's affinity to the other engines of its lane, and the spread of its role."""
    rules = group.spec.transfer.topology
    required = [_build_term(group, lane, rule.key) for rule in rules if rule.mode == "Required"]
    preferred = [
        {"weight": WEIGHT, "podAffinityTerm": _build_term(group, lane, rule.key)}
        for rule in rules
        if rule.mode == "Preferred"
    ]
    affinity = {name: terms for name, terms in ((REQUIRED, required), (PREFERRED, preferred)) if terms}
    spread = [_build_spread(group, role, lane, rule.key) for rule in rules if rule.mode == "Spread"]
    return {
        **({"affinity": {"podAffinity": affinity}} if affinity else {}),
        **({"topologySpreadConstraints": spread} if spread else {}),
    }


def _build_term(group: Group, lane: str, key: str) -> dict[str, Any]:
    engines = build_engine_selector(group)
    return {
        "labelSelector": {**engines, "matchLabels": {**engines["matchLabels"], labels.LANE_LABEL: lane}},
        "topologyKey": key,
    }


def _build_spread(group: Group, role: Role, lane: str, key: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {**build_selector(group, role), labels.LANE_LABEL: lane}},
    }


def find_owned(group: Group) -> Iterator[Owned]:
    """What a template can't change beside rules in `transfer.topology`: it would replace them unseen."""
    for mode, term in (("Required", REQUIRED), ("Preferred", PREFERRED)):
        if any(rule.mode == mode for rule in group.spec.transfer.topology):
            remedy = f"add your terms without a {mode} rule in spec.transfer.topology, or use that alone"
            yield Owned(("spec", "affinity", "podAffinity", term), remedy)
    for rule in group.spec.transfer.topology:
        if rule.mode == "Spread":
            path = ("spec", "topologySpreadConstraints", f"topologyKey={rule.key}")
            yield Owned(path, "remove it, or its key from spec.transfer.topology")
