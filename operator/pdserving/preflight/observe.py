"""Reads the machine into a `Machine`: files below `root`, and the few facts that only a real attempt gives."""

import ctypes
import errno
import mmap
import os
import resource
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pdserving.preflight.machine import Gpus, Machine, Memlock
from pdserving.preflight.sysfs import OpenDevice, list_names, read_hcas, read_integer, read_text
from pdserving.preflight.wanted import Wanted

PEERMEM_MODULES: Final = ("nvidia_peermem", "nv_peer_mem")


def open_device(path: Path) -> str:
    """What libibverbs will do. The device cgroup answers EPERM, a forgotten resource request ENOENT."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return f"{path}: {error.strerror}"
    try:
        return "" if stat.S_ISCHR(os.fstat(descriptor).st_mode) else f"{path} is not a character device"
    finally:
        os.close(descriptor)


def lock_memory(size: int) -> str:
    """Pin and release `size` bytes: mlock(2) obeys the same limit and capability as memory registration."""
    libc = ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, size)
    pages = ctypes.c_char.from_buffer(memory)
    address, length = ctypes.c_void_p(ctypes.addressof(pages)), ctypes.c_size_t(size)
    code = ctypes.get_errno() if libc.mlock(address, length) else 0
    libc.munlock(address, length)
    del pages
    memory.close()
    return os.strerror(code) if code else ""


def memlock_limit() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def file_system_bytes(path: Path) -> int:
    try:
        state = os.statvfs(path)
    except OSError:
        return 0
    return state.f_blocks * state.f_frsize


def bind_address(address: str) -> str:
    """An address can be bound only where an interface of this namespace has it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return "not on any interface" if error.errno == errno.EADDRNOTAVAIL else str(error.strerror or error)
    return ""


@dataclass(frozen=True, slots=True)
class Attempts:
    """What has to be tried rather than read. Tests replace them."""

    open_device: OpenDevice = open_device
    lock_memory: Callable[[int], str] = lock_memory
    memlock_limit: Callable[[], int | None] = memlock_limit
    file_system_bytes: Callable[[Path], int] = file_system_bytes
    bind_address: Callable[[str], str] = bind_address


def observe(wanted: Wanted, *, root: Path = Path("/"), attempts: Attempts | None = None) -> Machine:
    """Take the whole picture once; milliseconds, plus the page faults of `wanted.pin_bytes`."""
    tries = attempts or Attempts()
    return Machine(
        hcas=read_hcas(root, tries.open_device),
        device_nodes=list_names(root / "dev/infiniband"),
        memlock=_observe_memlock(root, wanted, tries),
        gpus=_observe_gpus(root),
        kernel=read_text(root / "proc/sys/kernel/osrelease"),
        shm_bytes=tries.file_system_bytes(root / "dev/shm"),
        host_ip_error=tries.bind_address(wanted.host_ip) if wanted.host_ip else "",
    )


def _observe_memlock(root: Path, wanted: Wanted, attempts: Attempts) -> Memlock:
    lines = read_text(root / "proc/self/status").splitlines()
    status = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    return Memlock(
        limit=attempts.memlock_limit(),
        error=attempts.lock_memory(wanted.pin_bytes),
        effective_capabilities=int(status.get("CapEff", ["0"])[0], 16),
        bounding_capabilities=int(status.get("CapBnd", ["0"])[0], 16),
        uid=int(status.get("Uid", ["0", "0"])[1]),
    )


def _observe_gpus(root: Path) -> Gpus:
    folder = root / "proc/driver/nvidia/gpus"
    numa_nodes = {pci: read_integer(root / "sys/bus/pci/devices" / pci / "numa_node") for pci in list_names(folder)}
    return Gpus(
        driver=read_text(root / "proc/driver/nvidia/version").partition("\n")[0],
        peermem=_peermem(root),
        numa_nodes={pci: -1 if node is None else node for pci, node in numa_nodes.items()},
    )


def _peermem(root: Path) -> str:
    """The live module's name. MOFED's old ``nv_peer_mem`` shows itself under ``memory_peers`` too."""
    for module in PEERMEM_MODULES:
        if read_text(root / "sys/module" / module / "initstate") == "live":
            return module
    return "nv_mem" if (root / "sys/kernel/mm/memory_peers/nv_mem").exists() else ""
