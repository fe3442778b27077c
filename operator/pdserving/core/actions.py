"""The records that pass between the core and those who act on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the operator was told at its installation."""

    proxy_image: str
    proxy_image_pull_policy: str = "IfNotPresent"
    engine_image: str | None = None
    operator_namespace: str = "pdserving-system"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Self:
        metadata = manifest["metadata"]
        return cls(
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata.get("uid", ""),
            resource_version=metadata.get("resourceVersion", ""),
        )


@dataclass(frozen=True, slots=True)
class Event:
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ApplyFailure:
    """A write that the API server refused or did not answer.

    `reason` is the API server's own word where it gave one (Invalid, Forbidden, Conflict …), else Unavailable.
    """

    ref: ObjectRef
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What else must be observed before `plan` can say why something is not ready."""

    events: bool = False
    logs: tuple[str, ...] = ()
    """Names of pods whose engine container's previous log is wanted."""
    pools: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    apply: tuple[dict[str, Any], ...] = ()
    """Objects that differ from what was observed, in the order in which to apply them."""
    delete: tuple[ObjectRef, ...] = ()
    status: dict[str, Any] = field(default_factory=dict)
    """The whole status, if all writes succeed; see `report` for the other case."""
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None
    """Seconds after which to look again although nothing was reported; None when the group is settled."""
    dry_run: tuple[dict[str, Any], ...] = ()
    """Those of `apply` that carry a user's template: apply them with dryRun=All first, and nothing at all if one is
    refused, so that a bad template creates nothing by halves."""
