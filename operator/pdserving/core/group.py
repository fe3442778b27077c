"""A group as the core works with it: identity from the metadata, spec by the API models.

Parsing is total. What the API server should have refused (an older CRD, a client that went around it) comes back as
problems in the words that the CRD would have used.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from pdserving.api.conditions import INVALID_SPEC
from pdserving.api.labels import BOOTSTRAP_PORT
from pdserving.api.owned import OWNED_ENV, env_message, find_owned_flag
from pdserving.api.v1alpha1 import EngineSpec, PDServingGroupSpec, RoleSpec, TransferSpec
from pdserving.api.v1alpha1.group import MAX_NAME, NAME_INVALID, NAME_PATTERN, NAME_TOO_LONG, ONE_PER_NODE
from pdserving.api.v1alpha1.transfer import ONE_MODE, HostNetwork
from pdserving.core.kv import find_disagreement
from pdserving.core.names import DEFAULT_PORTS, Role

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Problem:
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    namespace: str
    uid: str
    spec: PDServingGroupSpec

    def role(self, role: Role) -> RoleSpec:
        return self.spec.prefill if role == "prefill" else self.spec.decode

    @property
    def host_network(self) -> HostNetwork | None:
        """Set if engines share their node's addresses and ports."""
        rdma = self.spec.transfer.rdma
        return rdma.host_network if rdma else None

    def port(self, role: Role) -> int:
        """Of the role's HTTP server: where both roles share a node's ports, decode's is the next one."""
        return self.spec.engine.port + (1 if self.host_network and role == "decode" else 0)

    @property
    def scheme(self) -> Literal["http", "https"]:
        """What clients speak."""
        return "https" if self.spec.proxy.tls else "http"

    @property
    def service_port(self) -> int:
        """Of the Service through which they come."""
        return self.spec.proxy.service.port or DEFAULT_PORTS[self.scheme]

    @property
    def preflight(self) -> bool:
        """Whether its engine pods are checked before they start: only RDMA has anything to check."""
        return self.spec.transfer.protocol == "rdma" and self.spec.transfer.preflight != "skip"

    @property
    def verify_interval(self) -> int:
        """Seconds between two canaries of an engine; 0: none."""
        verification = self.spec.verification
        return 0 if verification.mode == "Off" else verification.interval_seconds

    @property
    def served_name(self) -> str:
        source = self.spec.model.source.hugging_face
        return self.spec.model.served_name or (source.repo if source else self.name)


def parse_group(manifest: Mapping[str, Any]) -> Group | Problem:
    metadata = manifest.get("metadata") or {}
    try:
        spec = PDServingGroupSpec.model_validate(manifest.get("spec"))
    except ValidationError as error:
        return Problem(INVALID_SPEC, "; ".join(_describe(error)))
    group = Group(
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace", "")),
        uid=str(metadata.get("uid", "")),
        spec=spec,
    )
    problems = tuple(find_problems(group))
    return Problem(INVALID_SPEC, "; ".join(problems)) if problems else group


def _describe(error: ValidationError) -> Iterator[str]:
    """At most three problems: a person repairs one at a time."""
    for problem in error.errors(include_url=False, include_input=False)[:3]:
        path = ".".join(("spec", *(str(part) for part in problem["loc"])))
        text = "unknown field, remove it" if problem["type"] == "extra_forbidden" else problem["msg"]
        yield f"{path}: {text}"


def find_problems(group: Group) -> Iterator[str]:
    spec = group.spec
    if len(group.name) > MAX_NAME:
        yield NAME_TOO_LONG
    if not re.match(NAME_PATTERN, group.name):
        yield NAME_INVALID
    if sum(value is not None for _, value in spec.model.source) != 1:
        yield "spec.model.source: set exactly one source"
    yield from _find_transfer_problems(spec.transfer)
    if group.port("decode") in (BOOTSTRAP_PORT, 65536):
        yield f"spec.engine.port: with hostNetwork decode takes the next port, {group.port('decode')}: choose another"
    if group.host_network and _is_crowded(spec):
        yield f"spec: {ONE_PER_NODE}"
    for path, owner in (("engine", spec.engine), ("prefill", spec.prefill), ("decode", spec.decode)):
        yield from _find_owned(path, owner)
    if disagreement := find_disagreement(spec):
        yield disagreement


def _find_transfer_problems(transfer: TransferSpec) -> Iterator[str]:
    if (transfer.protocol == "rdma") != (transfer.rdma is not None):
        yield "spec.transfer: set rdma if and only if protocol is rdma"
    elif transfer.rdma and sum(value is not None for _, value in transfer.rdma) != 1:
        yield f"spec.transfer.rdma: {ONE_MODE}"
    if len({rule.key for rule in transfer.topology}) < len(transfer.topology):
        yield "spec.transfer.topology: name each key once"


def _is_crowded(spec: PDServingGroupSpec) -> bool:
    """Whether several engines of a role must stand on one node."""
    one_node = any(rule.key == HOSTNAME and rule.mode == "Required" for rule in spec.transfer.topology)
    return one_node and any((role.replicas or 0) > 1 for role in (spec.prefill, spec.decode))


def _find_owned(path: str, owner: EngineSpec | RoleSpec) -> Iterator[str]:
    if flag := find_owned_flag(owner.args):
        yield f"spec.{path}.args: {flag.message}"
    for variable in owner.env:
        if variable.name in OWNED_ENV:
            yield f"spec.{path}.env: {env_message(variable.name)}"
