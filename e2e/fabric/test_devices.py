"""Devices of the kubelet's device plugin API: counted, handed out, exhausted, sick, and gone with their plugin."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.device_plugin import node as device_plugin
from e2e.lib.fabric import RESOURCE, Fabric
from e2e.lib.kubectl import Kubectl
from e2e.lib.target import Target
from e2e.lib.waiting import eventually

LIST = "import os; print(sorted(os.listdir('/dev/infiniband'))); os.open('/dev/infiniband/uverbs0', os.O_RDWR)"
NO_FOLDER = "import os, sys; sys.exit(os.path.exists('/dev/infiniband'))"


def allocatable(kubectl: Kubectl) -> list[str]:
    return [node["status"]["allocatable"].get(RESOURCE, "absent") for node in kubectl.list("nodes")]


@contextmanager
def pod(kubectl: Kubectl, image: str, name: str, units: int, program: str) -> Iterator[dict[str, Any]]:
    """A pod that runs a line of Python with so many units of the resource, deleted afterwards."""
    limits = {RESOURCE: str(units)} if units else {}
    container = {"name": "main", "image": image, "command": ["python3", "-c", program], "resources": {"limits": limits}}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    kubectl.apply(manifest)
    try:
        yield manifest
    finally:
        kubectl.delete("pod", name, "--wait=false")


def phase(kubectl: Kubectl, name: str) -> str:
    return str(kubectl.get("pod", name)["status"]["phase"])


def unschedulable(kubectl: Kubectl, name: str) -> str:
    conditions = kubectl.get("pod", name)["status"].get("conditions", [])
    return next(
        (c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), ""
    )


@pytest.fixture(autouse=True)
def all_offered(kubectl: Kubectl, fabric: Fabric) -> None:
    eventually("every node offers 8 units", lambda: set(allocatable(kubectl)) == {"8"}, within=60)


def test_a_pod_with_the_resource_opens_the_device(kubectl: Kubectl, target: Target) -> None:
    with pod(kubectl, target.operator_image, "granted", 1, LIST):
        eventually("the pod has run", lambda: phase(kubectl, "granted") == "Succeeded", within=120)
        assert kubectl.run("logs", "granted").strip() == "['rdma_cm', 'uverbs0', 'uverbs1', 'uverbs2']"


def test_a_pod_without_it_has_no_device(kubectl: Kubectl, target: Target) -> None:
    with pod(kubectl, target.operator_image, "bare", 0, NO_FOLDER):
        eventually("the pod has run", lambda: phase(kubectl, "bare") == "Succeeded", within=120)


def test_more_than_there_are_is_not_scheduled(kubectl: Kubectl, target: Target) -> None:
    with pod(kubectl, target.operator_image, "greedy", 9, LIST):
        reason = eventually("the pod can't be scheduled", lambda: unschedulable(kubectl, "greedy"), within=60)
        assert f"Insufficient {RESOURCE}" in reason


def test_sick_units_are_not_offered(kubectl: Kubectl, fabric: Fabric) -> None:
    for node in fabric.nodes:
        device_plugin.set_unhealthy(node, "0", "1", "2")
    try:
        eventually("5 units are left", lambda: set(allocatable(kubectl)) == {"5"}, within=60)
    finally:
        for node in fabric.nodes:
            device_plugin.set_unhealthy(node)
    eventually("they are offered again", lambda: set(allocatable(kubectl)) == {"8"}, within=60)


def test_a_plugin_that_ends_takes_its_units_along_and_brings_them_back(kubectl: Kubectl, fabric: Fabric) -> None:
    stopped = [(node, node.stop(device_plugin.NAME)) for node in fabric.nodes]
    try:
        eventually("nothing is offered", lambda: set(allocatable(kubectl)) <= {"0", "absent"}, within=60)
    finally:
        for node, component in stopped:
            node.start(component)
    eventually("8 units are offered again", lambda: set(allocatable(kubectl)) == {"8"}, within=60)
