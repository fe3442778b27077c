"""PodDisruptionBudgets: a drain takes one pod of a role at a time."""

from typing import Any

from pdserving.core import names
from pdserving.core.group import Group
from pdserving.core.resources.metadata import build_metadata, build_selector


def build_budget(group: Group, role: str) -> dict[str, Any]:
    """`maxUnavailable: 1` and not `minAvailable`: a role of one replica must not block a node's drain for ever.

    Pods that are not ready anyway may always be evicted.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": build_metadata(group, names.budget(group.name, role), role),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": build_selector(group, role)},
        },
    }
