"""The StatefulSet of a role's engines in one lane."""

from typing import Any

from pdserving.api import labels
from pdserving.core import names
from pdserving.core.actions import Defaults
from pdserving.core.group import Group
from pdserving.core.names import Role
from pdserving.core.resources.engine_pod import build_engine_pod
from pdserving.core.resources.metadata import build_metadata, build_selector


def build_engine_set(group: Group, role: Role, lane: str, image: str, defaults: Defaults) -> dict[str, Any]:
    """A StatefulSet for stable pod names: `<pod>.<group>-bootstrap` is that prefill pod's bootstrap server.

    Parallel: engines do not wait for each other. `replicas` is left out when an autoscaler owns it; server-side apply
    then neither sets nor resets it. While suspended it is 0 in any case.
    """
    metadata = build_metadata(group, names.engine_set(group.name, role, lane), role)
    selector = {**build_selector(group, role), labels.LANE_LABEL: lane}
    replicas = 0 if group.spec.suspend else group.role(role).replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {**metadata, "labels": {**metadata["labels"], **selector}},
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "serviceName": (names.bootstrap_service if role == "prefill" else names.decode_service)(group.name),
            "podManagementPolicy": "Parallel",
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": selector},
            "template": build_engine_pod(group, role, lane, image, defaults),
        },
    }
