"""The Deployment of the proxies."""

from typing import Any

from pdserving.api import labels
from pdserving.core import names
from pdserving.core.group import Group
from pdserving.core.resources.metadata import build_metadata, build_selector
from pdserving.core.resources.proxy_pod import build_proxy_pod


def build_proxy_deployment(group: Group, image: str, pull_policy: str) -> dict[str, Any]:
    """Never fewer ready proxies than wanted during a rollout: a proxy costs little and a lost one loses requests."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": build_metadata(group, names.proxy(group.name), labels.PROXY),
        "spec": {
            "replicas": 0 if group.spec.suspend else group.spec.proxy.replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": build_selector(group, labels.PROXY)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": build_proxy_pod(group, image, pull_policy),
        },
    }
