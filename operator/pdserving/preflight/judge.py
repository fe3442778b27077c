"""All checks in the order in which a person would look: the first failure is usually the cause of the rest."""

from collections.abc import Callable
from typing import Final

from pdserving.preflight.checks.devices import check_device_count, check_hca, check_uverbs
from pdserving.preflight.checks.gids import check_gid
from pdserving.preflight.checks.gpus import check_gpu_affinity, check_gpu_direct
from pdserving.preflight.checks.host import check_environment, check_host_ip, check_memlock, check_shm
from pdserving.preflight.checks.links import check_link_layer, check_mtu, check_partition, check_port_state, check_rate
from pdserving.preflight.machine import Machine
from pdserving.preflight.result import Check, Result
from pdserving.preflight.wanted import Protocol, Wanted

Judgement = Callable[[Machine, Wanted], Check]

FABRIC: Final[tuple[Judgement, ...]] = (
    check_hca,
    check_uverbs,
    check_device_count,
    check_port_state,
    check_link_layer,
    check_partition,
    check_gid,
    check_rate,
    check_mtu,
    check_memlock,
    check_gpu_direct,
    check_gpu_affinity,
)
CONTAINER: Final[tuple[Judgement, ...]] = (check_shm, check_host_ip)


def judge(machine: Machine, wanted: Wanted) -> Result:
    """Pure and total: over TCP the fabric is not looked at."""
    fabric = FABRIC if wanted.protocol is Protocol.RDMA else ()
    return Result(tuple(check(machine, wanted) for check in (check_environment, *fabric, *CONTAINER)))
