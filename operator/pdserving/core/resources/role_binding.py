"""Gives the proxies' account the proxies' role."""

from typing import Any

from pdserving.api import labels
from pdserving.core import names
from pdserving.core.group import Group
from pdserving.core.resources.metadata import build_metadata


def build_proxy_role_binding(group: Group) -> dict[str, Any]:
    name = names.proxy(group.name)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": build_metadata(group, name, labels.PROXY),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": group.namespace}],
    }
