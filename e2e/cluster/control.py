"""Faults of the control plane, for tests: a component crashes, is away for a while, comes back."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster import control_plane, lifecycle, paths
from e2e.cluster.node import Node
from e2e.cluster.shell import ClusterError, wait_for
from e2e.cluster.topology import LAYOUT


def restart_apiserver(how: signal.Signals = signal.SIGKILL) -> None:
    """End the API server and start it again: every watch and connection is lost."""
    with absent("kube-apiserver", how=how):
        pass
    wait_for(lambda: control_plane.is_ready(LAYOUT), f"the API server (logs in {paths.LOGS})")


@contextmanager
def absent(component: str, *, node: int = 1, how: signal.Signals = signal.SIGKILL) -> Iterator[None]:
    """Stop a component of a node (its names are those of `status`) for as long as the block lasts."""
    place = _node(node)
    stopped = place.stop(component, how)
    try:
        yield
    finally:
        place.start(stopped)


def _node(number: int) -> Node:
    for node in lifecycle.nodes():
        if node.plan.number == number:
            return node
    raise ClusterError(f"the cluster has no node{number}")
