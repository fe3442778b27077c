"""A PDServingGroup as a test holds it: made from the example that the README applies, changed, watched, deleted."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.lib.engine import Engine
from e2e.lib.kubectl import Kubectl
from e2e.lib.waiting import NotYetError, eventually
from pdserving.api import labels

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tiny-cpu" / "pdgroup.yaml"
START_SECONDS = 900.0
"""A CPU engine needs half a minute of processor time, several start at once, and the cores may be busy with others."""
OWNED = "statefulsets,deployments,services,serviceaccounts,roles,rolebindings,poddisruptionbudgets,networkpolicies"


@dataclass(frozen=True, slots=True)
class Group:
    """A group in one namespace; ``kubectl`` is bound to it."""

    kubectl: Kubectl
    name: str

    def get(self) -> dict[str, Any]:
        return self.kubectl.get(labels.KIND, self.name)

    def apply(self, spec: Mapping[str, Any]) -> str:
        return self.kubectl.apply(manifest(self.name, spec))

    def patch(self, spec: Mapping[str, Any]) -> str:
        return self.kubectl.patch(labels.KIND, self.name, {"spec": spec})

    def delete(self) -> None:
        self.kubectl.delete(labels.KIND, self.name, "--wait=false")

    def owned(self, kinds: str = OWNED) -> list[dict[str, Any]]:
        return self.kubectl.list(kinds, f"{labels.GROUP_LABEL}={self.name}")

    def pods(self, role: str) -> list[dict[str, Any]]:
        """Pods of a role that are not on their way out, oldest name first."""
        pods = self.kubectl.list("pods", f"{labels.GROUP_LABEL}={self.name},{labels.ROLE_LABEL}={role}")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def engines(self, role: str) -> list[Engine]:
        return [Engine(self.kubectl, pod["metadata"]["name"], http_port(pod)) for pod in self.pods(role)]

    def condition(self, kind: str) -> dict[str, Any]:
        """The condition if the operator has judged the present generation, else an empty one."""
        group = self.get()
        conditions = group.get("status", {}).get("conditions", [])
        current = [c for c in conditions if c["type"] == kind]
        fresh = [c for c in current if c.get("observedGeneration") == group["metadata"]["generation"]]
        return fresh[0] if fresh else {}

    def wait_ready(self, seconds: float = START_SECONDS) -> None:
        self.wait_condition("Ready", "True", seconds)

    def wait_condition(self, kind: str, status: str, seconds: float) -> dict[str, Any]:
        what = f"{kind}={status} of {self.name}"
        return eventually(what, lambda: self.has_condition(kind, status), within=seconds, every=1.0)

    def has_condition(self, kind: str, status: str) -> dict[str, Any]:
        """The condition; raises `NotYetError` with what it says while its status is another one."""
        condition = self.condition(kind)
        if condition.get("status") != status:
            raise NotYetError(f"{condition.get('status')} {condition.get('reason')}: {condition.get('message')}")
        return condition

    def scale(self, seconds: float = START_SECONDS, **replicas: int) -> None:
        """Set replicas by role and wait until exactly so many pods of it are ready."""
        self.patch({role: {"replicas": count} for role, count in replicas.items()})
        for role, count in replicas.items():
            self.wait_pods(role, count, seconds)
        self.wait_ready(seconds)

    def wait_pods(self, role: str, count: int, seconds: float) -> None:
        def check() -> bool:
            pods = self.pods(role)
            return len(pods) == count and all(map(is_ready, pods))

        eventually(f"{count} ready {role} pods", check, within=seconds, every=1.0)


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def http_port(pod: Mapping[str, Any]) -> int:
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports", [])]
    return next(int(port["containerPort"]) for port in ports if port["name"] == "http")


def manifest(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": labels.API_VERSION, "kind": labels.KIND, "metadata": {"name": name}, "spec": spec}


def example_spec(image: str | None = None) -> dict[str, Any]:
    """Spec of the tiny CPU example, with another engine image where the cluster pulls it from elsewhere."""
    documents = yaml.safe_load_all(EXAMPLE.read_text())
    spec = next(each for each in documents if each["kind"] == labels.KIND)["spec"]
    return merged(spec, {"engine": {"image": image}}) if image else spec


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``change`` laid over it: mappings by key, everything else replaced."""
    result = copy.deepcopy(dict(base))
    for key, value in change.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return result


def make_namespace(kubectl: Kubectl, name: str, *, enforce: str = "restricted") -> Kubectl:
    """A namespace that enforces a Pod Security level, and kubectl bound to it."""
    level = {f"pod-security.kubernetes.io/{mode}": enforce for mode in ("enforce", "warn")}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": level}})
    return kubectl.within(name)
