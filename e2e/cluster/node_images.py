"""Bring image archives into the nodes; what a node already has, by key, is not imported again."""

from pathlib import Path

from e2e.cluster import console, paths, pause
from e2e.cluster.node import Node
from e2e.cluster.node_components import PAUSE_IMAGE

KEY_LABEL = "pdserving.dev/content"
"""On an image in a node's store: names the inputs from which it was built."""


def load(node: Node, image: str, key: str, archive: Path) -> None:
    """Import `archive`, which holds `image` of the content `key`, and remember the key."""
    with console.step(f"loading {image} into {node.plan.name}"):
        load_archive(node, archive)
        node.holder.enter(*_ctr(), "label", image, f"{KEY_LABEL}={key}")


def has(node: Node, image: str, key: str) -> bool:
    return f"{KEY_LABEL}={key}" in node.holder.enter(*_ctr(), "list", f"name=={image}")


def load_archive(node: Node, archive: Path) -> None:
    node.holder.enter(*_ctr(), "import", archive)


def load_pause(node: Node) -> None:
    """The kubelet's sandbox image; small enough to be written and imported at every start."""
    load_archive(node, pause.write_archive(paths.program("pause"), PAUSE_IMAGE, paths.RUN / "pause.tar"))


def _ctr() -> tuple[str, ...]:
    return ("ctr", "--namespace", "k8s.io", "images")
