"""Can the HCA read GPU memory, and is one near each GPU?"""

import re
from typing import Final

from pdserving.preflight.checks.verdicts import failed, passed, skipped, usable_hcas, warned
from pdserving.preflight.machine import Machine
from pdserving.preflight.result import Check
from pdserving.preflight.wanted import GpuDirect, Wanted

GPU_DIRECT: Final = "gpu-direct"
GPU_AFFINITY: Final = "gpu-affinity"
DMABUF_KERNEL: Final = (5, 12)
NO_GPU: Final = "no NVIDIA driver on this node"


def check_gpu_direct(machine: Machine, wanted: Wanted) -> Check:
    """Mooncake takes the one way it is told, never the other: `Bad address [14]` is a missing nvidia_peermem."""
    if not machine.gpus.driver:
        return skipped(GPU_DIRECT, NO_GPU)
    if wanted.gpu_direct is GpuDirect.DMABUF or (wanted.gpu_direct is GpuDirect.AUTO and not machine.gpus.peermem):
        return _check_dmabuf(machine)
    if machine.gpus.peermem:
        return passed(GPU_DIRECT, f"peermem ({machine.gpus.peermem})")
    other = "set transfer.gpuDirect: dmabuf" if _dmabuf_able(machine) else "use the open GPU kernel modules"
    remedy = f"load nvidia_peermem (GPU Operator: driver.rdma.enabled), or {other}"
    return failed(GPU_DIRECT, "nvidia_peermem is not loaded", expected="module live", remedy=remedy)


def _check_dmabuf(machine: Machine) -> Check:
    value = f"{_flavour(machine)} GPU kernel modules, kernel {machine.kernel}"
    if _dmabuf_able(machine):
        return passed(GPU_DIRECT, f"dmabuf ({value})")
    remedy = "load nvidia_peermem, or install the open GPU kernel modules on kernel 5.12 or later"
    return failed(GPU_DIRECT, value, expected="open modules, kernel 5.12 or later", remedy=remedy)


def _flavour(machine: Machine) -> str:
    return "open" if "Open Kernel Module" in machine.gpus.driver else "proprietary"


def _dmabuf_able(machine: Machine) -> bool:
    version = re.match(r"(\d+)\.(\d+)", machine.kernel)
    recent = version is not None and (int(version[1]), int(version[2])) >= DMABUF_KERNEL
    return recent and _flavour(machine) == "open"


def check_gpu_affinity(machine: Machine, wanted: Wanted) -> Check:
    """By NUMA node only. A GPU without a near HCA works, through the socket interconnect."""
    usable, gpus = usable_hcas(machine, wanted), machine.gpus.numa_nodes
    if not usable or not gpus:
        return skipped(GPU_AFFINITY, "no usable HCA" if not usable else "no GPU in this container")
    near = {hca.numa_node for hca in usable}
    far = {pci: node for pci, node in gpus.items() if node not in near or node < 0}
    if not far:
        return passed(GPU_AFFINITY, f"an HCA on the NUMA node of each of {len(gpus)} GPUs")
    value = ", ".join(f"{pci} on NUMA {node}" for pci, node in far.items())
    remedy = "choose HCAs near the GPUs in transfer.hcas, or let the Topology Manager or a DRA claim align them"
    return warned(GPU_AFFINITY, value, expected="an HCA on the same NUMA node", remedy=remedy)
