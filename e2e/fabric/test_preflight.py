"""A pod whose fabric is wrong says so within a minute, before any model is loaded, and starts once it is repaired."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.lib.fabric import RESOURCE, Fabric, rdma_spec
from e2e.lib.groups import Group, merged
from e2e.lib.kubectl import Kubectl
from e2e.lib.release import Release
from e2e.lib.target import Target
from e2e.lib.waiting import eventually

MINUTE = 60.0
AS_NOBODY = {"spec": {"securityContext": {"runAsUser": 65532}}}


@pytest.fixture
def failing(kubectl: Kubectl, fabric: Fabric, release: Release) -> Iterator[Group]:
    """A group that each test applies; its engines never get so far as to load a model."""
    group = Group(kubectl, "failing")
    yield group
    group.delete()
    fabric.heal()
    eventually("its pods are gone", lambda: not kubectl.list("pods", "pdserving.dev/group=failing"), within=300)


def one_pod(spec: dict[str, Any]) -> dict[str, Any]:
    """Prefill alone is enough to see a preflight."""
    return merged(spec, {"decode": {"replicas": 0}})


def failed(group: Group, reason: str) -> str:
    """The message of PreflightPassed=False with this reason, as the condition has it within a minute."""

    def check() -> str:
        found = group.condition("PreflightPassed")
        assert (found.get("status"), found.get("reason")) == ("False", reason), found
        return str(found["message"])

    return eventually(f"PreflightPassed is False/{reason}", check, within=MINUTE)


@pytest.mark.parametrize(
    ("fault", "reason", "told"),
    [
        ("state = DOWN", "PortNotActive", "mlx5_0 DOWN (Disabled)"),
        ("gids = - - - -", "NoUsableGid", "empty GID table"),
        ("gids = v1:link v1:addr", "NoUsableGid", "IB/RoCE v1"),
    ],
)
def test_a_broken_port_is_told(
    failing: Group, fabric: Fabric, target: Target, fault: str, reason: str, told: str
) -> None:
    fabric.change("prefill", fault)
    failing.apply(one_pod(rdma_spec(target.engine_image)))
    message = failed(failing, reason)
    assert told in message
    assert "pod failing-prefill-" in message
    assert "on node node1" in message


def test_an_hca_that_does_not_exist_is_told_with_those_that_do(failing: Group, target: Target) -> None:
    failing.apply(one_pod(rdma_spec(target.engine_image, hcas=["mlx5_7"])))
    assert "no mlx5_7; there are mlx5_0" in failed(failing, "NoHca")


def test_a_capability_without_root_is_told(failing: Group, target: Target) -> None:
    spec = rdma_spec(target.engine_image)
    failing.apply(one_pod(merged(spec, {"prefill": {"template": AS_NOBODY}})))
    message = failed(failing, "MemlockTooLow")
    assert "Cannot allocate memory" in message
    assert "uid 65532" in message


def test_a_resource_that_no_node_has_is_told(failing: Group, target: Target) -> None:
    spec = rdma_spec(target.engine_image)
    failing.apply(one_pod(merged(spec, {"transfer": {"rdma": {"devicePlugin": {"resource": "rdma/nowhere"}}}})))
    stalled = failing.wait_condition("Stalled", "True", MINUTE)
    assert stalled["reason"] == "Unschedulable"
    assert "Insufficient rdma/nowhere" in stalled["message"]


def test_a_pod_that_may_not_start_is_why_the_group_is_not_ready(failing: Group, fabric: Fabric, target: Target) -> None:
    fabric.change("prefill", "state = DOWN")
    failing.apply(one_pod(rdma_spec(target.engine_image)))
    failed(failing, "PortNotActive")
    ready = failing.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PortNotActive")
    assert RESOURCE not in ready["message"]


def test_repair_needs_no_hands(failing: Group, fabric: Fabric, target: Target) -> None:
    fabric.change("prefill", "state = DOWN")
    failing.apply(one_pod(rdma_spec(target.engine_image)))
    failed(failing, "PortNotActive")
    fabric.heal()
    passed = failing.wait_condition("PreflightPassed", "True", 2 * MINUTE)
    assert "Ethernet mlx5_0 400 Gb/sec" in passed["message"]
