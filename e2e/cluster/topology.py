"""Names and addresses of the cluster on this machine; fixed, so that there is one cluster a machine.

The machine itself gets a bridge, one port a node, and routes to pods and Services; it needs no forwarding for them.
"""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import paths
from e2e.cluster.components import SERVICE_CIDR, Layout

BRIDGE = "pdserving0"
NODE_CIDR = "10.99.0.0/24"
HOST_IP = "10.99.0.254"
"""The machine, seen from nodes and pods; admission webhooks can be served from there."""
API_IP = "10.99.0.1"
POD_CIDR = "10.244.0.0/16"
CLUSTER_CIDRS = (NODE_CIDR, POD_CIDR, SERVICE_CIDR)
MOST_NODES = 9

LAYOUT = Layout(paths.BIN, paths.RUN, host=API_IP)
"""The control plane, whose programs run in node 1."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What follows from a node's number, counted from 1."""

    number: int

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def address(self) -> str:
        return f"10.99.0.{self.number}"

    @property
    def pods(self) -> str:
        return f"10.244.{self.number}.0/24"

    @property
    def port(self) -> str:
        """The machine's end of the node's cable."""
        return f"{BRIDGE}-{self.number}"

    @property
    def cgroup(self) -> str:
        return f"pdserving-{self.number}"

    @property
    def folder(self) -> Path:
        """State that ends with the cluster."""
        return paths.RUN / self.name

    @property
    def images(self) -> Path:
        """containerd's store, kept over `down`, so that images are imported once."""
        return paths.CACHE / "nodes" / self.name


def conflicts(routes: list[str]) -> list[str]:
    """Those of the machine's routes (as CIDRs) that the cluster's networks would overlap."""
    ours = [ipaddress.ip_network(cidr) for cidr in CLUSTER_CIDRS]
    return [route for route in routes if any(ipaddress.ip_network(route).overlaps(net) for net in ours)]
