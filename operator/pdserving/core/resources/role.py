"""What a group's proxies may do: see the namespace's pods, and nothing else."""

from typing import Any

from pdserving.api import labels
from pdserving.core import names
from pdserving.core.group import Group
from pdserving.core.resources.metadata import build_metadata


def build_proxy_role(group: Group) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": build_metadata(group, names.proxy(group.name), labels.PROXY),
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    }
