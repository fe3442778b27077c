"""The three Services of a group."""

from typing import Any

from pdserving.api import labels
from pdserving.core import names
from pdserving.core.group import Group
from pdserving.core.resources.metadata import build_metadata, build_selector


def build_bootstrap_service(group: Group) -> dict[str, Any]:
    """Headless: each prefill pod runs its own bootstrap server that knows only its own ranks.

    An address balanced over several of them would answer for the wrong one. Not-ready pods have names too, because a
    pod registers before it is ready.
    """
    ports = [_port("http", group.port("prefill"), "http"), _port("bootstrap", labels.BOOTSTRAP_PORT, "bootstrap")]
    return _build(group, names.bootstrap_service(group.name), labels.PREFILL, _headless(ports, not_ready=True))


def build_decode_service(group: Group) -> dict[str, Any]:
    """Names for decode pods."""
    ports = [_port("http", group.port("decode"), "http")]
    return _build(group, names.decode_service(group.name), labels.DECODE, _headless(ports, not_ready=False))


def build_endpoint_service(group: Group) -> dict[str, Any]:
    """Where clients go.

    The target port has the scheme's name: while TLS is turned on or off, only proxies that speak it stand behind it.
    """
    service = group.spec.proxy.service
    port: dict[str, Any] = _port(group.scheme, group.service_port, group.scheme)
    if group.scheme == "https":
        port["appProtocol"] = "https"
    manifest = _build(
        group,
        names.endpoint_service(group.name),
        labels.PROXY,
        {"type": service.type, "ports": [port]},
    )
    if service.annotations:
        manifest["metadata"]["annotations"] = dict(service.annotations)
    return manifest


def _build(group: Group, name: str, role: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_metadata(group, name, role),
        "spec": {**spec, "selector": build_selector(group, role)},
    }


def _headless(ports: list[dict[str, Any]], *, not_ready: bool) -> dict[str, Any]:
    return {"clusterIP": "None", "publishNotReadyAddresses": not_ready, "ports": ports}


def _port(name: str, port: int, target: str) -> dict[str, Any]:
    return {"name": name, "port": port, "targetPort": target}
