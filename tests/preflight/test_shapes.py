"""Each shape of machine gets exactly the verdicts that it deserves, with the cause in the first failure."""

import pytest

from pdserving.preflight.result import Status

HEALTHY = ["infiniband", "roce-v2", "bonded", "sriov-vf"]
BROKEN = {
    "infiniband-limited": (["partition"], "pkey 0x7fff"),
    "roce-v1-only": (["gid"], "IB/RoCE v1"),
    "mixed": (["link-layer"], "mlx5_0 InfiniBand, mlx5_1 Ethernet"),
    "efa": (["hca", "link-layer"], "EFA only (rdmap16s27)"),
    "no-hca": (["hca", "gpu-direct"], "no HCA in /sys/class/infiniband"),
    "not-granted": (["uverbs"], "/dev/infiniband is absent or empty"),
    "rdma-cm-only": (["uverbs"], "only rdma_cm"),
    "port-init": (["port-state"], "mlx5_0 INIT (LinkUp)"),
    "empty-gid-table": (["gid"], "empty GID table"),
    "closed-gpu-modules": (["gpu-direct"], "nvidia_peermem is not loaded"),
}
WARNED = {
    "roce-link-local": ["gid", "mtu"],
    "port-down": ["port-state"],
    "mixed": ["rate"],
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_machine_passes_without_a_warning(examined, name):
    verdicts = examined(name)
    assert verdicts.named(Status.FAIL) == []
    assert verdicts.named(Status.WARN) == []
    assert {"hca", "uverbs", "port-state", "link-layer", "gid", "rate"} <= set(verdicts.named(Status.PASS))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_machine_fails_for_its_reason_and_says_what_to_do(examined, name):
    failures, cause = BROKEN[name]
    verdicts = examined(name)
    assert verdicts.named(Status.FAIL) == failures
    first = verdicts[failures[0]]
    assert cause in first.value + first.expected
    assert all(verdicts[failure].remedy for failure in failures)


@pytest.mark.parametrize("name", WARNED)
def test_what_works_badly_is_a_warning_with_a_remedy(examined, name):
    verdicts = examined(name)
    assert verdicts.named(Status.WARN) == WARNED[name]
    assert all(verdicts[warning].remedy for warning in WARNED[name])


def test_no_check_of_the_fabric_runs_over_tcp(examined):
    verdicts = examined("no-hca", PDSERVING_PREFLIGHT_PROTOCOL="tcp", MC_FORCE_TCP="1")
    assert [check.name for check in verdicts.result.checks] == ["environment", "shm", "host-ip"]
    assert verdicts.result.passed
