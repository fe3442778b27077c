"""The machine's side of the cluster's network: a bridge, one port a node, routes; nothing else of it changes."""

import json

from e2e.cluster import topology
from e2e.cluster.components import SERVICE_CIDR
from e2e.cluster.shell import ClusterError, run
from e2e.cluster.topology import BRIDGE, NodePlan


def refuse_conflicts() -> None:
    """Raise if the cluster's networks would take addresses that the machine already reaches in another way."""
    if BRIDGE in _interfaces():
        raise ClusterError(
            f"interface {BRIDGE} exists, but no cluster of this cache made it: one cluster a machine. If it was "
            f"started with another PDSERVING_CACHE, take it down with that one; else `ip link del {BRIDGE}`"
        )
    routes = [route["dst"] for route in json.loads(run("ip", "-j", "-4", "route")) if route["dst"] != "default"]
    if taken := topology.conflicts(routes):
        raise ClusterError(
            f"the machine has routes to {', '.join(taken)}; the cluster needs {', '.join(topology.CLUSTER_CIDRS)}"
        )


def create() -> None:
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "add", f"{topology.HOST_IP}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    run("ip", "route", "add", SERVICE_CIDR, "via", topology.API_IP)


def attach(node: NodePlan, pid: int) -> None:
    """Give the network namespace of process `pid` an `eth0` on the bridge, and the machine a route to its pods."""
    run("ip", "link", "add", node.port, "type", "veth", "peer", "name", "eth0", "netns", pid)
    run("ip", "link", "set", node.port, "master", BRIDGE, "up")
    inside = ("nsenter", "-t", pid, "-n", "--")
    run(*inside, "ip", "link", "set", "lo", "up")
    run(*inside, "ip", "link", "set", "eth0", "up")
    run(*inside, "ip", "addr", "add", f"{node.address}/24", "dev", "eth0")
    run(*inside, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    run("ip", "route", "add", node.pods, "via", node.address)


def connect(node: NodePlan, other: NodePlan, pid: int) -> None:
    """Route from `node`, whose holder is `pid`, to the pods of `other`."""
    run("nsenter", "-t", pid, "-n", "--", "ip", "route", "add", other.pods, "via", other.address)


def remove() -> None:
    """Take away the bridge and its ports; routes go with them.

    The kernel drops the port of a dead node by itself, but later: the next `up` would find its name taken.
    """
    ours = {BRIDGE, *(NodePlan(number + 1).port for number in range(topology.MOST_NODES))}
    for name in sorted(ours & _interfaces(), reverse=True):
        try:
            run("ip", "link", "del", name)
        except ClusterError:
            if name in _interfaces():  # else the kernel was faster
                raise


def _interfaces() -> set[str]:
    return {link["ifname"] for link in json.loads(run("ip", "-j", "link"))}
