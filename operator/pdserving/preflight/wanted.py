"""What the pod is supposed to have, from the environment.

The operator renders the preflight container with the engine container's own environment plus ``PDSERVING_PREFLIGHT_*``,
so the check sees the variables that Mooncake will obey, also those that a user added to the pod template.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

E = TypeVar("E", bound=StrEnum)

PREFIX: Final = "PDSERVING_PREFLIGHT_"
MIB: Final = 1 << 20
DEFAULT_PIN_BYTES: Final = 64 * MIB
"""Eight times containerd's default memlock limit, and small beside any container's memory."""


class Protocol(StrEnum):
    RDMA = "rdma"
    TCP = "tcp"


class Mode(StrEnum):
    ENFORCE = "enforce"
    WARN = "warn"


class GpuDirect(StrEnum):
    AUTO = "auto"
    PEERMEM = "peermem"
    DMABUF = "dmabuf"


class MisconfiguredError(ValueError):
    """A variable holds a value that means nothing; the message names it and what it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to check against; ``None`` and empty mean: not asked for."""

    protocol: Protocol = Protocol.RDMA
    mode: Mode = Mode.ENFORCE
    hcas: tuple[str, ...] = ()
    devices: int | None = None
    pci_addresses: tuple[str, ...] = ()
    ib_port: int = 1
    gid_index: int | None = None
    gpu_direct: GpuDirect = GpuDirect.PEERMEM
    shm_bytes: int | None = None
    pin_bytes: int = DEFAULT_PIN_BYTES
    host_ip: str | None = None
    force_tcp: bool = False
    force_hca: bool = False


def parse_wanted(environ: Mapping[str, str]) -> Wanted:
    """Read every variable once.

    Precedence follows Mooncake: ``MC_GID_INDEX``, then ``NCCL_IB_GID_INDEX``; ``MC_FORCE_TCP`` and ``MC_FORCE_HCA``
    count by presence, whatever their value.
    """
    return Wanted(
        protocol=_choice(environ, "PROTOCOL", Protocol, Protocol.RDMA),
        mode=_choice(environ, "MODE", Mode, Mode.ENFORCE),
        hcas=_names(environ.get(PREFIX + "HCAS") or environ.get("MC_TE_FILTERS", "")),
        devices=_integer(environ, PREFIX + "DEVICES"),
        pci_addresses=_pci_addresses(environ),
        ib_port=_integer(environ, "MC_IB_PORT") or 1,
        gid_index=_first_index(environ, PREFIX + "GID_INDEX", "MC_GID_INDEX", "NCCL_IB_GID_INDEX"),
        gpu_direct=_gpu_direct(environ),
        shm_bytes=_integer(environ, PREFIX + "SHM_BYTES"),
        pin_bytes=_integer(environ, PREFIX + "PIN_BYTES") or DEFAULT_PIN_BYTES,
        host_ip=environ.get("VLLM_HOST_IP") or None,
        force_tcp="MC_FORCE_TCP" in environ,
        force_hca="MC_FORCE_HCA" in environ,
    )


def _choice(environ: Mapping[str, str], name: str, kind: type[E], default: E) -> E:
    text = environ.get(PREFIX + name) or default
    try:
        return kind(text.lower())
    except ValueError:
        raise MisconfiguredError(f"{PREFIX}{name}={text}: use one of {', '.join(kind)}") from None


def _integer(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise MisconfiguredError(f"{name}={text}: use a whole number") from None


def _first_index(environ: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        index = _integer(environ, name)
        if index is not None:
            return index if index >= 0 else None
    return None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _pci_addresses(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What an SR-IOV device plugin handed out: ``PCIDEVICE_<RESOURCE>``; the ``_INFO`` twins hold JSON."""
    granted = (v for k, v in sorted(environ.items()) if k.startswith("PCIDEVICE_") and not k.endswith("_INFO"))
    return tuple(address for text in granted for address in _names(text))


def _gpu_direct(environ: Mapping[str, str]) -> GpuDirect:
    """Unless told otherwise, what Mooncake will do: peermem unless ``WITH_NVIDIA_PEERMEM`` says no, with no fallback.

    ``auto`` is an engine that is started with whichever of the two its node has.
    """
    if environ.get(PREFIX + "GPU_DIRECT"):
        return _choice(environ, "GPU_DIRECT", GpuDirect, GpuDirect.AUTO)
    peermem = environ.get("WITH_NVIDIA_PEERMEM", "1").lower() not in {"0", "false", "off", "no"}
    return GpuDirect.PEERMEM if peermem else GpuDirect.DMABUF
