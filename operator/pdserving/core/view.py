"""What observed objects say, read once: scales of StatefulSets and Deployments, lanes, pods of a role.

Live objects come from the API server, but reading is total all the same: a missing or odd field counts as zero.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pdserving.api import labels
from pdserving.core.names import Role
from pdserving.core.observed import Object, Observed
from pdserving.core.template import look_up

ROLES: tuple[Role, Role] = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class Scale:
    """How far the pods of a StatefulSet or Deployment are."""

    desired: int = 0
    ready: int = 0
    updated: int = 0
    current: bool = False
    """Whether its controller has seen the newest spec, so that the other numbers speak of it."""

    @property
    def settled(self) -> bool:
        return self.current and self.desired == self.ready == self.updated


def read_scale(workload: Object | None) -> Scale:
    """StatefulSets and Deployments alike.

    Updated counts the pods of the newest template; a StatefulSet whose rollout is finished may leave it out.
    """
    if workload is None:
        return Scale()
    status = _mapping(workload.get("status"))
    desired = _count(look_up(workload, ("spec", "replicas")), missing=1)
    finished = status.get("currentRevision") is not None and status.get("currentRevision") == status.get(
        "updateRevision"
    )
    return Scale(
        desired=desired,
        ready=_count(status.get("readyReplicas")),
        updated=_count(status.get("replicas" if finished else "updatedReplicas")),
        current=_count(status.get("observedGeneration")) >= _count(look_up(workload, ("metadata", "generation"))),
    )


@dataclass(frozen=True, slots=True)
class Lane:
    """A pair of StatefulSets whose engines exchange KV cache."""

    name: str
    sets: Mapping[Role, Object] = field(default_factory=dict)

    def scale(self, role: Role) -> Scale:
        return read_scale(self.sets.get(role))

    @property
    def serving(self) -> bool:
        return all(self.scale(role).ready for role in ROLES)

    @property
    def created(self) -> str:
        return min((str(look_up(live, ("metadata", "creationTimestamp"))) for live in self.sets.values()), default="")


@dataclass(frozen=True, slots=True)
class View:
    observed: Observed
    lanes: Mapping[str, Lane]
    deployment: Object | None

    @property
    def proxies(self) -> Scale:
        return read_scale(self.deployment)

    def lane(self, name: str) -> Lane:
        return self.lanes.get(name, Lane(name))

    def pods(self, role: str, lane: str | None = None) -> tuple[Object, ...]:
        """Pods of a role by name, those of one lane if it is given."""
        wanted = {labels.ROLE_LABEL: role} | ({} if lane is None else {labels.LANE_LABEL: lane})
        chosen = [pod for pod in self.observed.pods if wanted.items() <= labels_of(pod).items()]
        return tuple(sorted(chosen, key=name_of))


def read_view(observed: Observed) -> View:
    sets: dict[str, dict[Role, Object]] = {}
    for live, lane, role in _engine_sets(observed):
        sets.setdefault(lane, {})[role] = live
    return View(
        observed=observed,
        lanes={name: Lane(name, pair) for name, pair in sorted(sets.items())},
        deployment=next((live for live in observed.objects if live.get("kind") == "Deployment"), None),
    )


def _engine_sets(observed: Observed) -> Iterator[tuple[Object, str, Role]]:
    for live in observed.objects:
        found = labels_of(live)
        for role in ROLES:
            if live.get("kind") == "StatefulSet" and found.get(labels.ROLE_LABEL) == role:
                yield live, str(found.get(labels.LANE_LABEL, "")), role


def name_of(manifest: Object) -> str:
    return str(look_up(manifest, ("metadata", "name")) or "")


def labels_of(manifest: Object) -> Mapping[str, Any]:
    return _mapping(look_up(manifest, ("metadata", "labels")))


def objects_in(value: Any) -> tuple[Object, ...]:
    """The objects of a list that the API server gave; none if it is no list."""
    return tuple(entry for entry in value if isinstance(entry, dict)) if isinstance(value, list) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: Any, missing: int = 0) -> int:
    return value if isinstance(value, int) else missing
