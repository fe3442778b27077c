"""Is there an HCA, may this container open it, and are there as many as were asked for?"""

from typing import Final

from pdserving.preflight.checks.verdicts import chosen_hcas, failed, passed, skipped, usable_hcas
from pdserving.preflight.machine import Machine
from pdserving.preflight.result import Check
from pdserving.preflight.wanted import Wanted

HCA: Final = "hca"
UVERBS: Final = "uverbs"
DEVICE_COUNT: Final = "device-count"

REQUEST_RESOURCE: Final = (
    "request the node's RDMA resource in transfer.rdma; a hostPath of /dev/infiniband is not enough"
)


def check_hca(machine: Machine, wanted: Wanted) -> Check:
    """Without any, Mooncake takes TCP silently, or refuses to start where MC_FORCE_HCA is set."""
    found = [hca.name for hca in machine.hcas]
    missing = [name for name in wanted.hcas if name not in found]
    if not found:
        remedy = "run on a node with an RDMA HCA and its driver loaded (mlx5_ib, ib_uverbs)"
        return failed(HCA, "no HCA in /sys/class/infiniband", expected="one or more", remedy=remedy)
    if missing:
        expected, remedy = ", ".join(wanted.hcas), "correct transfer.hcas, or the node's HCA names"
        return failed(HCA, f"no {', '.join(missing)}; there are {', '.join(found)}", expected=expected, remedy=remedy)
    chosen = chosen_hcas(machine, wanted)
    if all(hca.efa for hca in chosen):
        names, remedy = ", ".join(hca.name for hca in chosen), "use transfer.protocol: tcp, or nodes with verbs HCAs"
        return failed(HCA, f"EFA only ({names})", expected="reliable-connected verbs", remedy=remedy)
    return passed(HCA, ", ".join(hca.name for hca in chosen))


def check_uverbs(machine: Machine, wanted: Wanted) -> Check:
    """The character device decides, not the sysfs entry: in shared mode a pod sees every HCA of the host."""
    chosen, usable = chosen_hcas(machine, wanted), usable_hcas(machine, wanted)
    if not chosen:
        return skipped(UVERBS, "no HCA")
    refused = [f"{hca.name}: {hca.node_error}" for hca in chosen if not hca.granted]
    if not usable:
        value = _why_no_node(machine) or "; ".join(refused)
        return failed(UVERBS, value, expected="/dev/infiniband/uverbsN opens", remedy=REQUEST_RESOURCE)
    if refused and wanted.hcas:
        return failed(UVERBS, "; ".join(refused), expected=", ".join(wanted.hcas), remedy=REQUEST_RESOURCE)
    seen = f" of {len(chosen)} HCAs in sysfs" if refused else ""
    return passed(UVERBS, ", ".join(f"{hca.node} ({hca.name})" for hca in usable) + seen)


def _why_no_node(machine: Machine) -> str:
    if not machine.device_nodes:
        return "/dev/infiniband is absent or empty"
    if not any(name.startswith("uverbs") for name in machine.device_nodes):
        return f"/dev/infiniband holds no uverbs device, only {', '.join(machine.device_nodes)}"
    return ""


def check_device_count(machine: Machine, wanted: Wanted) -> Check:
    """Only where a unit of the resource is a device (SR-IOV, host-device): a shared plugin's count means nothing."""
    if wanted.devices is None and not wanted.pci_addresses:
        return skipped(DEVICE_COUNT, "no count asked for")
    usable = usable_hcas(machine, wanted)
    addresses = {hca.pci_address for hca in usable}
    lost = [address for address in wanted.pci_addresses if address not in addresses]
    count = len(wanted.pci_addresses) if wanted.devices is None else wanted.devices
    value = f"{len(usable)} usable" + (f"; no HCA at {', '.join(lost)}" if lost else "")
    if len(usable) == count and not lost:
        return passed(DEVICE_COUNT, value)
    remedy = "make the resource count, the network attachments and transfer.rdma agree; set isRdma: true in the plugin"
    return failed(DEVICE_COUNT, value, expected=str(count), remedy=remedy)
