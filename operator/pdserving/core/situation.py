"""All that a status is concluded from, and what stands in a group's way."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pdserving.api import conditions as c
from pdserving.api.labels import PROXY
from pdserving.core.conditions import read_conditions
from pdserving.core.failures import Failure, diagnose_missing_pods, diagnose_pod
from pdserving.core.group import Group, Problem
from pdserving.core.lanes import find_serving
from pdserving.core.names import Role
from pdserving.core.observed import Object
from pdserving.core.view import ROLES, Lane, Scale, View, read_scale


@dataclass(frozen=True)
class Situation:
    view: View
    group: Group | None
    """None if the spec is invalid."""
    problem: Problem | None
    target: str | None
    """The lane that the spec asks for; None if the spec is invalid."""
    pending: int
    """Objects that are yet to be written or deleted."""
    before: Object = field(default_factory=dict)
    """The status as it was last written."""

    @cached_property
    def serving(self) -> Lane | None:
        return find_serving(self.view, self.target)

    @cached_property
    def shown(self) -> Lane:
        """The lane of which status speaks: the one that serves, else the one that comes up."""
        return self.serving or self.view.lane(self.target or next(iter(self.view.lanes), ""))

    def scale(self, role: Role) -> Scale:
        """Of the shown lane; what is wanted is the spec's word where the spec speaks of this lane."""
        live = self.shown.scale(role)
        if self.group is None or self.shown.name != self.target:
            return live
        replicas = self.group.role(role).replicas
        if replicas is None:
            replicas = live.desired if role in self.shown.sets else 1
        return replace(live, desired=0 if self.suspended else replicas)

    @property
    def proxies(self) -> Scale:
        live = self.view.proxies
        if self.group is None:
            return live
        return replace(live, desired=0 if self.suspended else self.group.spec.proxy.replicas)

    @property
    def preflight(self) -> bool:
        """Whether the group's engine pods carry a preflight container."""
        return self.group is not None and self.group.preflight

    @property
    def canaries(self) -> bool:
        """Whether proxies run canaries; with an invalid spec, those of the last valid one tell."""
        if self.group is None:
            return any("pairs" in pool for pool in self.view.observed.pools)
        return self.group.verify_interval > 0

    @property
    def enforced(self) -> bool:
        """Whether Ready needs a verified KV transfer."""
        return self.group is not None and self.group.spec.verification.mode == "Enforce"

    @property
    def was_ready(self) -> bool:
        """Whether the shown lane was Ready at the last look."""
        ready = read_conditions({"status": self.before}).get(c.READY, {})
        return ready.get("status") == "True" and self.before.get("lane") == self.shown.name

    @property
    def suspended(self) -> bool:
        return self.group is not None and self.group.spec.suspend


def diagnose(situation: Situation) -> dict[str, Failure | None]:
    """Role -> why not all of its pods are ready, in the lane that is shown."""
    view = situation.view
    proxies = _with_obstacle(diagnose_role(view, PROXY, None, view.deployment), view)
    return diagnose_lane(view, situation.shown) | {PROXY: proxies}


def _with_obstacle(failure: Failure | None, view: View) -> Failure | None:
    """A proxy that runs and refuses everybody tells why in its pool page, whether it is ready or not."""
    if failure is None or failure.reason != c.UNHEALTHY:
        return failure
    told = [text for pool in view.observed.pools for text in _texts(pool.get("obstacles"))]
    return replace(failure, message=f"{failure.message}: {min(told)}", blocking=True) if told else failure


def _texts(value: Any) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def diagnose_lane(view: View, lane: Lane) -> dict[str, Failure | None]:
    return {role: diagnose_role(view, role, lane.name, lane.sets.get(role)) for role in ROLES}


def diagnose_role(view: View, role: str, lane: str | None, workload: Object | None) -> Failure | None:
    """The worst that keeps pods of a role from being ready: what blocks before what passes by itself."""
    pods = view.pods(role, lane)
    found = [failure for pod in pods if (failure := diagnose_pod(pod, view.observed))]
    if workload is not None and len(pods) < read_scale(workload).desired:
        missing = diagnose_missing_pods(workload, view.observed)
        found = [*found, missing] if missing else found
    return min(found, key=lambda failure: not failure.blocking, default=None)


def find_obstacle(situation: Situation, failures: Mapping[str, Failure | None]) -> Failure | None:
    """What blocks the way to the spec: in the lane that comes up, if there is one, else in the one that serves."""
    view, target = situation.view, situation.target
    if target is not None and target != situation.shown.name:
        failures = {**failures, **diagnose_lane(view, view.lane(target))}
    return next((failure for failure in failures.values() if failure and failure.blocking), None)
