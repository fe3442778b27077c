"""What the engine needs of its container whatever the fabric: pinned memory, shared memory, its own address."""

from typing import Final

from pdserving.preflight.checks.verdicts import failed, passed, skipped, warned
from pdserving.preflight.machine import Machine, Memlock
from pdserving.preflight.result import Check
from pdserving.preflight.wanted import MIB, Protocol, Wanted

ENVIRONMENT: Final = "environment"
MEMLOCK: Final = "memlock"
SHM: Final = "shm"
HOST_IP: Final = "host-ip"


def check_environment(_machine: Machine, wanted: Wanted) -> Check:
    """Mooncake ignores vLLM's `mooncake_protocol`: only these two variables choose the transport."""
    if wanted.protocol is Protocol.RDMA and wanted.force_tcp:
        return failed(ENVIRONMENT, "MC_FORCE_TCP is set", expected="unset", remedy="remove MC_FORCE_TCP from the env")
    if wanted.protocol is Protocol.RDMA and not wanted.force_hca:
        remedy = "set MC_FORCE_HCA=1, or Mooncake takes TCP silently when it finds no HCA"
        return warned(ENVIRONMENT, "MC_FORCE_HCA is not set", expected="MC_FORCE_HCA=1", remedy=remedy)
    if wanted.protocol is Protocol.TCP and not wanted.force_tcp:
        remedy = "set MC_FORCE_TCP=1, or Mooncake takes RDMA where it finds an HCA"
        return warned(ENVIRONMENT, "MC_FORCE_TCP is not set", expected="MC_FORCE_TCP=1", remedy=remedy)
    return passed(ENVIRONMENT, f"{wanted.protocol} forced")


def check_memlock(machine: Machine, wanted: Wanted) -> Check:
    """The whole KV cache is pinned at start, after the model is loaded; the kernel says ENOMEM when it may not."""
    memlock = machine.memlock
    value = _describe(memlock)
    expected = "unlimited, or CAP_IPC_LOCK in effect"
    if memlock.error:
        value = f"{value}; pinning {wanted.pin_bytes // MIB} MiB: {memlock.error}"
        return failed(MEMLOCK, value, expected=expected, remedy=_memlock_remedy(memlock))
    if memlock.limit is not None and not memlock.capable:
        remedy = f"the whole KV cache must fit into the limit; otherwise {_memlock_remedy(memlock)}"
        return warned(MEMLOCK, value, expected=expected, remedy=remedy)
    return passed(MEMLOCK, value)


def _describe(memlock: Memlock) -> str:
    limit = "unlimited" if memlock.limit is None else f"{memlock.limit >> 10} KiB"
    return f"limit {limit}, CAP_IPC_LOCK {'in effect' if memlock.capable else 'not in effect'}, uid {memlock.uid}"


def _memlock_remedy(memlock: Memlock) -> str:
    if memlock.inert:
        return "run the engine as uid 0 (others get no added capability), or set LimitMEMLOCK=infinity for containerd"
    return "add IPC_LOCK with runAsUser: 0, or set LimitMEMLOCK=infinity for containerd"


def check_shm(machine: Machine, wanted: Wanted) -> Check:
    """NCCL between an engine's own ranks needs more than the runtime's 64 MiB."""
    if wanted.shm_bytes is None:
        return skipped(SHM, "no size asked for")
    value, expected = f"{machine.shm_bytes // MIB} MiB", f"{wanted.shm_bytes // MIB} MiB"
    if machine.shm_bytes >= wanted.shm_bytes:
        return passed(SHM, value)
    remedy = "mount an emptyDir with medium: Memory and that sizeLimit at /dev/shm"
    return failed(SHM, value, expected=expected, remedy=remedy)


def check_host_ip(machine: Machine, wanted: Wanted) -> Check:
    """The address that vLLM advertises to its peers: in a pod with several networks its own guess may be wrong."""
    if not wanted.host_ip:
        remedy = "set VLLM_HOST_IP from status.podIP; vLLM guesses by the default route otherwise"
        return warned(HOST_IP, "VLLM_HOST_IP is not set", remedy=remedy)
    if machine.host_ip_error:
        remedy = "take VLLM_HOST_IP from status.podIP, not from a literal or another interface"
        return failed(HOST_IP, f"{wanted.host_ip}: {machine.host_ip_error}", expected="a local address", remedy=remedy)
    return passed(HOST_IP, wanted.host_ip)
