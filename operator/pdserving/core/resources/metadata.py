"""Labels, owner reference and selectors: what every object of a group carries."""

from typing import Any

from pdserving.api import labels
from pdserving.core.group import Group


def build_metadata(group: Group, name: str, component: str) -> dict[str, Any]:
    """Name, labels and the owner reference by which the garbage collector removes the object with its group.

    `blockOwnerDeletion` is left out: only foreground deletion would use it, and it costs the operator a right on
    the group's finalizers.
    """
    return {
        "name": name,
        "namespace": group.namespace,
        "labels": build_labels(group, component),
        "ownerReferences": [
            {
                "apiVersion": labels.API_VERSION,
                "kind": labels.KIND,
                "name": group.name,
                "uid": group.uid,
                "controller": True,
            }
        ],
    }


def build_labels(group: Group, component: str) -> dict[str, str]:
    return {
        labels.APP_NAME: "pdserving",
        labels.APP_INSTANCE: group.name,
        labels.APP_COMPONENT: component,
        labels.APP_PART_OF: "pdserving",
        labels.APP_MANAGED_BY: labels.MANAGER,
        labels.GROUP_LABEL: group.name,
    }


def build_pod_labels(group: Group, role: str) -> dict[str, str]:
    return {**build_labels(group, role), labels.ROLE_LABEL: role}


def build_selector(group: Group, role: str) -> dict[str, str]:
    """The pods of a role, in whichever lane."""
    return {labels.GROUP_LABEL: group.name, labels.ROLE_LABEL: role}


def build_engine_selector(group: Group) -> dict[str, Any]:
    """Prefill and decode pods of the group, as a label selector."""
    return {
        "matchLabels": {labels.GROUP_LABEL: group.name},
        "matchExpressions": [
            {"key": labels.ROLE_LABEL, "operator": "In", "values": [labels.PREFILL, labels.DECODE]},
        ],
    }
