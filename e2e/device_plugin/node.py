"""Runs the plugin inside a node of the self-contained cluster, beside its kubelet."""

from pathlib import Path
from typing import Final

from e2e.cluster import paths
from e2e.cluster.components import Component
from e2e.cluster.node import Node
from e2e.lib.wheels import python_with

WHEEL: Final = "grpcio==1.85.3"
NAME: Final = "device-plugin"
HEALTH: Final = Path("run/pdserving-unhealthy-devices")
"""Below the node's folder: its `/run` is its own."""


def start(node: Node, *options: str) -> None:
    """Offer RDMA-shaped devices on `node`; options are those of ``python -m e2e.device_plugin``."""
    environ = ("env", f"PYTHONPATH={paths.ROOT}", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1")
    node.start(Component(NAME, (*environ, str(python_with(WHEEL)), "-m", "e2e.device_plugin", *options)))


def stop(node: Node) -> None:
    node.stop(NAME)


def set_unhealthy(node: Node, *units: str) -> None:
    (node.plan.folder / HEALTH).write_text("\n".join(units))
