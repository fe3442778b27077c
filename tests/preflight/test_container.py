"""Pinned memory, shared memory, the advertised address and the variables that choose the transport."""

from dataclasses import replace

from pdserving.preflight.checks.host import check_memlock
from pdserving.preflight.machine import Gpus, Machine, Memlock
from pdserving.preflight.result import Check, Status
from pdserving.preflight.wanted import Wanted

IPC_LOCK = 1 << 14
SMALL = Memlock(limit=8 << 20, error="Cannot allocate memory", uid=65532)


def judge_memlock(memlock: Memlock) -> Check:
    return check_memlock(Machine((), (), memlock, Gpus("", ""), "6.8.0", 0, ""), Wanted())


def test_memory_that_cannot_be_pinned_fails_with_limit_size_and_error():
    check = judge_memlock(SMALL)
    assert check.status is Status.FAIL
    assert check.value == (
        "limit 8192 KiB, CAP_IPC_LOCK not in effect, uid 65532; pinning 64 MiB: Cannot allocate memory"
    )


def test_a_capability_that_uid_does_not_get_is_called_inert():
    granted = replace(SMALL, bounding_capabilities=IPC_LOCK)
    assert "run the engine as uid 0" in judge_memlock(granted).remedy
    assert "add IPC_LOCK" in judge_memlock(SMALL).remedy


def test_a_finite_limit_that_took_the_trial_is_a_warning():
    assert judge_memlock(replace(SMALL, limit=1 << 30, error="")).status is Status.WARN


def test_the_capability_or_an_unlimited_limit_passes():
    assert judge_memlock(Memlock(8 << 20, "", effective_capabilities=IPC_LOCK)).status is Status.PASS
    assert judge_memlock(Memlock(None, "")).status is Status.PASS


def test_capabilities_are_read_from_the_process(examined, fakes):
    fakes.memlock_limit = 8 << 20
    assert "CAP_IPC_LOCK in effect" in examined("roce-v2")["memlock"].value


def test_a_small_dev_shm_fails(examined):
    check = examined("roce-v2", PDSERVING_PREFLIGHT_SHM_BYTES=str(1 << 30))["shm"]
    assert (check.status, check.value, check.expected) == (Status.FAIL, "64 MiB", "1024 MiB")


def test_an_address_of_no_interface_fails(examined, fakes):
    fakes.host_ip_error = "not on any interface"
    check = examined("roce-v2", VLLM_HOST_IP="192.0.2.1")["host-ip"]
    assert (check.status, check.value) == (Status.FAIL, "192.0.2.1: not on any interface")


def test_a_forced_tcp_under_rdma_fails_whatever_its_value(examined):
    assert examined("roce-v2", MC_FORCE_TCP="0")["environment"].status is Status.FAIL


def test_tcp_that_is_not_forced_is_a_warning(examined):
    check = examined("roce-v2", PDSERVING_PREFLIGHT_PROTOCOL="tcp")["environment"]
    assert (check.status, check.expected) == (Status.WARN, "MC_FORCE_TCP=1")
