"""The rights that the chart gives the operator, for a user of the api tier."""

import json
import tempfile
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.control_plane import ControlPlane

RULES = Path(__file__).parents[2] / "charts/pdserving/templates/_rules.tpl"
LEASE_RULES = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}]


def read_rules() -> list[dict[str, Any]]:
    """The chart's template without its two lines of template language."""
    lines = RULES.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if "define" in line)
    rules: list[dict[str, Any]] = yaml.safe_load("\n".join(lines[start + 1 : -1]))
    return rules


def grant(plane: ControlPlane, user: str, namespaces: tuple[str, ...] = ()) -> None:
    """In these namespaces only, or in the cluster; the Lease in `default`."""
    manifests = _bind("Role", f"{user}-lease", user, LEASE_RULES, "default")
    for namespace in namespaces or (None,):
        manifests += _bind("Role" if namespace else "ClusterRole", user, user, read_rules(), namespace)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"apiVersion": "v1", "kind": "List", "items": manifests}, file)
        file.flush()
        plane.kubectl("apply", "--validate=false", "-f", file.name)


def _bind(kind: str, name: str, user: str, rules: list[dict[str, Any]], namespace: str | None) -> list[dict[str, Any]]:
    api, metadata = "rbac.authorization.k8s.io", {"name": name, **({"namespace": namespace} if namespace else {})}
    subject = {"apiGroup": api, "kind": "User", "name": user}
    ref = {"apiGroup": api, "kind": kind, "name": name}
    return [
        {"apiVersion": f"{api}/v1", "kind": kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": ref,
            "subjects": [subject],
        },
    ]
