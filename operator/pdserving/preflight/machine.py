"""Records of what was seen. Everything that a check needs is here, so the checks do no I/O."""

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

ROCE_V2 = "RoCE v2"
ETHERNET = "Ethernet"
INFINIBAND = "InfiniBand"
CAP_IPC_LOCK = 14


@dataclass(frozen=True, slots=True)
class Gid:
    """A filled slot of a port's GID table. ``netdev`` is empty where the kernel does not tell (another namespace)."""

    index: int
    address: IPv6Address
    kind: str
    netdev: str = ""

    @property
    def ip(self) -> IPv4Address | IPv6Address:
        return self.address.ipv4_mapped or self.address

    @property
    def link_local(self) -> bool:
        return self.ip.is_link_local

    def __str__(self) -> str:
        return f"{self.index}={self.ip} ({self.kind or 'unknown type'})"


@dataclass(frozen=True, slots=True)
class Port:
    number: int
    state: str
    physical_state: str
    link_layer: str
    rate: str
    lid: int
    pkey: int | None
    gids: tuple[Gid, ...]

    @property
    def active(self) -> bool:
        return self.state == "ACTIVE"


@dataclass(frozen=True, slots=True)
class Hca:
    """One RDMA device of sysfs. In shared RDMA namespaces a pod sees all of the host's, but may open only its own."""

    name: str
    node: str
    node_error: str
    pci_address: str
    numa_node: int | None
    vendor: str
    node_type: str
    ports: tuple[Port, ...]
    netdev_mtu: dict[str, int] = field(default_factory=dict)

    @property
    def granted(self) -> bool:
        return not self.node_error

    @property
    def efa(self) -> bool:
        return self.vendor == "0x1d0f"

    def port(self, number: int) -> Port | None:
        return next((port for port in self.ports if port.number == number), None)


@dataclass(frozen=True, slots=True)
class Memlock:
    """``limit`` is None where unlimited; ``error`` is what the kernel said to a real attempt, empty if it worked."""

    limit: int | None
    error: str
    effective_capabilities: int = 0
    bounding_capabilities: int = 0
    uid: int = 0

    @property
    def capable(self) -> bool:
        return bool(self.effective_capabilities >> CAP_IPC_LOCK & 1)

    @property
    def inert(self) -> bool:
        """The container was given IPC_LOCK, but Kubernetes gives capabilities to uid 0 only."""
        return not self.capable and self.uid != 0 and bool(self.bounding_capabilities >> CAP_IPC_LOCK & 1)


@dataclass(frozen=True, slots=True)
class Gpus:
    """``driver`` is empty without an NVIDIA driver. ``numa_nodes`` maps a GPU's PCI address; -1 is unknown."""

    driver: str
    peermem: str
    numa_nodes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Machine:
    hcas: tuple[Hca, ...]
    device_nodes: tuple[str, ...]
    memlock: Memlock
    gpus: Gpus
    kernel: str
    shm_bytes: int
    host_ip_error: str
