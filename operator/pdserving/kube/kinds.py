"""The kinds that the operator reads or writes, and where the API server serves them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pdserving.api import labels


@dataclass(frozen=True, slots=True)
class Kind:
    api_version: str
    kind: str
    plural: str

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Path of an object, of a namespace's objects, or (without a namespace) of the cluster's."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        scope = f"namespaces/{namespace}" if namespace else ""
        return "/".join(filter(None, (root, scope, self.plural, name, subresource)))


GROUPS: Final = Kind(labels.API_VERSION, labels.KIND, labels.PLURAL)
PODS: Final = Kind("v1", "Pod", "pods")
EVENTS: Final = Kind("v1", "Event", "events")
LEASES: Final = Kind("coordination.k8s.io/v1", "Lease", "leases")

OWNED: Final = (
    Kind("apps/v1", "StatefulSet", "statefulsets"),
    Kind("apps/v1", "Deployment", "deployments"),
    Kind("v1", "Service", "services"),
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    Kind("rbac.authorization.k8s.io/v1", "Role", "roles"),
    Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
)
"""What a group consists of."""
WATCHED: Final = (GROUPS, *OWNED, PODS)

_BY_NAME: Final = {(kind.api_version, kind.kind): kind for kind in (*WATCHED, EVENTS, LEASES)}


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    return find_kind(manifest["apiVersion"], manifest["kind"])


def find_kind(api_version: str, kind: str) -> Kind:
    return _BY_NAME[api_version, kind]
