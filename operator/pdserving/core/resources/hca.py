"""The ways to an HCA, as parts of an engine pod.

The preflight container asks for the same as the engine: devices are handed to containers, not to pods, and the
scheduler counts init and app containers by their maximum.
"""

from typing import Any

from pdserving.core.group import Group

NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""Multus' annotation."""
CLAIM = "hcas"


def build_limits(group: Group) -> dict[str, str]:
    """Extended resource and count. With host devices each network takes one device."""
    rdma = group.spec.transfer.rdma
    if rdma and rdma.device_plugin:
        return {rdma.device_plugin.resource: str(rdma.device_plugin.count)}
    if rdma and rdma.host_device:
        return {rdma.host_device.resource: str(len(rdma.host_device.networks))}
    if rdma and rdma.host_network and rdma.host_network.resource:
        return {rdma.host_network.resource: "1"}
    return {}


def build_annotations(group: Group) -> dict[str, str]:
    rdma = group.spec.transfer.rdma
    return {NETWORKS: ",".join(rdma.host_device.networks)} if rdma and rdma.host_device else {}


def build_claims(group: Group) -> dict[str, Any]:
    """The container's part of a claim."""
    rdma = group.spec.transfer.rdma
    return {"claims": [{"name": CLAIM}]} if rdma and rdma.resource_claim else {}


def build_pod_claims(group: Group) -> dict[str, Any]:
    """The pod's part of a claim: the kubelet's device of one pod, made from the template for each."""
    rdma = group.spec.transfer.rdma
    if not rdma or not rdma.resource_claim:
        return {}
    return {"resourceClaims": [{"name": CLAIM, "resourceClaimTemplateName": rdma.resource_claim.template_name}]}


def build_network(group: Group) -> dict[str, Any]:
    """The pod's part of sharing its node's network; names of Services still resolve."""
    return {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if group.host_network else {}


def needs_privileges(group: Group) -> bool:
    """A node's device that nobody hands out is closed by the container's device cgroup."""
    return group.host_network is not None and not group.host_network.resource


def count_devices(group: Group) -> int | None:
    """How many HCAs a pod must be able to open, where a unit of the resource is a device; None where it is not."""
    rdma = group.spec.transfer.rdma
    return len(rdma.host_device.networks) if rdma and rdma.host_device else None
