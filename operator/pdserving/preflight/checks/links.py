"""Is the link up, of one kind, in the right partition, and as fast and wide as its neighbours?"""

from typing import Final

from pdserving.preflight.checks.verdicts import active_ports, failed, graded, passed, skipped, usable_hcas, warned
from pdserving.preflight.machine import ETHERNET, INFINIBAND, Hca, Machine
from pdserving.preflight.result import Check
from pdserving.preflight.wanted import Wanted

PORT_STATE: Final = "port-state"
LINK_LAYER: Final = "link-layer"
PARTITION: Final = "partition"
RATE: Final = "rate"
MTU: Final = "mtu"

NO_PORT: Final = "no active port of a usable HCA"
JUMBO_MTU: Final = 4200
"""The least Ethernet MTU that carries RoCE's path MTU of 4096 with its headers."""


def check_port_state(machine: Machine, wanted: Wanted) -> Check:
    """Mooncake skips a device without an active port; when it was the only one, that means TCP or no start."""
    usable = usable_hcas(machine, wanted)
    if not usable:
        return skipped(PORT_STATE, "no usable HCA")
    states = {hca.name: _port_state(hca, wanted.ib_port) for hca in usable}
    good = [f"{name} {state}" for name, state in states.items() if state == "ACTIVE"]
    bad = [f"{name} {state}" for name, state in states.items() if state != "ACTIVE"]
    return graded(PORT_STATE, good, bad, wanted, expected="ACTIVE", remedy=_port_remedy(states))


def _port_state(hca: Hca, number: int) -> str:
    port = hca.port(number)
    if not port:
        return f"has no port {number}"
    return port.state if port.active else f"{port.state} ({port.physical_state})"


def _port_remedy(states: dict[str, str]) -> str:
    if any(state.startswith("INIT") for state in states.values()):
        return "start a subnet manager, or let it see this port; a link handed over by host-device may need a reset"
    return "check cable, switch port and `ip link`; the device plugin should not offer a port that is down"


def check_link_layer(machine: Machine, wanted: Wanted) -> Check:
    """InfiniBand and RoCE cannot talk, and Mooncake pairs devices without asking which is which."""
    ports = active_ports(machine, wanted)
    if not ports:
        return skipped(LINK_LAYER, NO_PORT)
    layers = {port.link_layer for _, port in ports}
    if layers <= {ETHERNET} or layers <= {INFINIBAND}:
        return passed(LINK_LAYER, layers.pop())
    value = ", ".join(f"{hca.name} {port.link_layer or 'unknown'}" for hca, port in ports)
    remedy = "name the HCAs of one link layer in transfer.hcas, of the same one for prefill and decode"
    return failed(LINK_LAYER, value, expected=f"{INFINIBAND} or {ETHERNET}, not both", remedy=remedy)


def check_partition(machine: Machine, wanted: Wanted) -> Check:
    """A port without a LID cannot be addressed; a limited member starts well and fails at the first transfer."""
    ports = [(hca, port) for hca, port in active_ports(machine, wanted) if port.link_layer == INFINIBAND]
    if not ports:
        return skipped(PARTITION, "no active InfiniBand port")
    good: list[str] = []
    bad: list[str] = []
    for hca, port in ports:
        full = port.pkey is None or bool(port.pkey & 0x8000)
        told = f"{hca.name} LID {port.lid}" + ("" if port.pkey is None else f" pkey {port.pkey:#06x}")
        (good if port.lid and full else bad).append(told)
    remedy = "ask the subnet manager for a LID and full membership of the partition, or name other HCAs"
    return graded(PARTITION, good, bad, wanted, expected="LID above 0, full member (pkey 0x8000 set)", remedy=remedy)


def check_rate(machine: Machine, wanted: Wanted) -> Check:
    """Reported for comparison with the measured transfer rate; unequal rails are worth a look, not a refusal."""
    ports = active_ports(machine, wanted)
    if not ports:
        return skipped(RATE, NO_PORT)
    rates = {hca.name: port.rate or "unknown" for hca, port in ports}
    value = ", ".join(f"{name} {rate}" for name, rate in rates.items())
    if len(set(rates.values())) == 1:
        return passed(RATE, value)
    return warned(RATE, value, expected="equal rates", remedy="name the fast HCAs in transfer.hcas")


def check_mtu(machine: Machine, wanted: Wanted) -> Check:
    """RoCE derives its path MTU from the interface: 1500 gives 1024. InfiniBand's is not in sysfs."""
    mtus = _ethernet_mtus(machine, wanted)
    if not mtus:
        return skipped(MTU, "no Ethernet interface of an active port is visible in this network namespace")
    value = ", ".join(f"{name} {mtu}" for name, mtu in mtus.items())
    if min(mtus.values()) >= JUMBO_MTU and len(set(mtus.values())) == 1:
        return passed(MTU, value)
    remedy = "set jumbo frames on every interface and switch port of the path, the same for prefill and decode"
    return warned(MTU, value, expected=f"one MTU of at least {JUMBO_MTU}", remedy=remedy)


def _ethernet_mtus(machine: Machine, wanted: Wanted) -> dict[str, int]:
    ports = [(hca, port) for hca, port in active_ports(machine, wanted) if port.link_layer == ETHERNET]
    return {netdev: mtu for hca, _ in ports for netdev, mtu in hca.netdev_mtu.items()}
