"""Who may reach a group's pods. Both policies are about ingress; egress, DNS included, stays as it was.

Nothing in the KV transfer authenticates anybody: whoever reaches an engine can kill it with one request, make it fetch
a URL, or have KV cache written to an address of his choice (vLLM 0.33). Probes come from the node and are not subject
to policies. Further peers, a Prometheus for instance, get in by another NetworkPolicy: they add up.
"""

from typing import Any

from pdserving.api import labels
from pdserving.core import names
from pdserving.core.group import Group
from pdserving.core.resources.metadata import build_engine_selector, build_metadata, build_selector


def build_engine_policy(group: Group) -> dict[str, Any]:
    """Proxies reach the HTTP and bootstrap ports, engines each other on every TCP port.

    The side channel binds a random port on prefill, and the transfer engine one of 15000 to 17000 for each rank.
    """
    proxies = {"podSelector": {"matchLabels": build_selector(group, labels.PROXY)}}
    engines = {"podSelector": build_engine_selector(group)}
    return _build(
        group,
        names.engine_policy(group.name),
        build_engine_selector(group),
        [
            {"from": [proxies], "ports": [_port(group.spec.engine.port), _port(labels.BOOTSTRAP_PORT)]},
            {"from": [engines], "ports": [{"protocol": "TCP"}]},
        ],
    )


def build_proxy_policy(group: Group, operator_namespace: str) -> dict[str, Any]:
    """Everybody reaches the OpenAI endpoint; only the operator reaches the admin port, where it reads the pool."""
    operator = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": operator_namespace}}}
    return _build(
        group,
        names.proxy(group.name),
        {"matchLabels": build_selector(group, labels.PROXY)},
        [
            {"ports": [_port(labels.PROXY_PORT)]},
            {"from": [operator], "ports": [_port(labels.PROXY_ADMIN_PORT)]},
        ],
    )


def _build(group: Group, name: str, selector: dict[str, Any], ingress: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": build_metadata(group, name, "network"),
        "spec": {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _port(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}
