"""RDMA devices as sysfs shows them, below any root folder, so that a recorded tree reads like a machine.

Every read may fail alone (the kernel answers EINVAL for the attributes of an empty GID slot, and hides files of other
network namespaces); what cannot be read is empty, and the checks say so.
"""

from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path

from pdserving.preflight.machine import Gid, Hca, Port

OpenDevice = Callable[[Path], str]
"""Opens a character device for reading and writing; the answer is the error's text, empty if it worked."""


def read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def read_integer(path: Path, base: int = 10) -> int | None:
    try:
        return int(read_text(path), base)
    except ValueError:
        return None


def list_names(folder: Path) -> tuple[str, ...]:
    """Natural order, so that mlx5_10 comes after mlx5_9."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return ()
    return tuple(sorted(names, key=lambda name: (len(name), name)))


def read_hcas(root: Path, open_device: OpenDevice) -> tuple[Hca, ...]:
    nodes = _nodes_by_hca(root)
    folder = root / "sys/class/infiniband"
    return tuple(_read_hca(root, name, nodes.get(name, ""), open_device) for name in list_names(folder))


def _nodes_by_hca(root: Path) -> dict[str, str]:
    folder = root / "sys/class/infiniband_verbs"
    names = (name for name in list_names(folder) if name.startswith("uverbs"))
    return {read_text(folder / name / "ibdev"): name for name in names}


def _read_hca(root: Path, name: str, node: str, open_device: OpenDevice) -> Hca:
    folder = root / "sys/class/infiniband" / name
    ports = tuple(_read_port(folder / "ports" / number, int(number)) for number in list_names(folder / "ports"))
    netdevs = {gid.netdev for port in ports for gid in port.gids if gid.netdev} | set(list_names(folder / "device/net"))
    mtus = {netdev: read_integer(root / "sys/class/net" / netdev / "mtu") for netdev in sorted(netdevs)}
    return Hca(
        name=name,
        node=node,
        node_error=open_device(root / "dev/infiniband" / node) if node else "no uverbs device of it in sysfs",
        pci_address=_pci_address(folder / "device"),
        numa_node=read_integer(folder / "device/numa_node"),
        vendor=read_text(folder / "device/vendor"),
        node_type=read_text(folder / "node_type").partition(": ")[2],
        ports=ports,
        netdev_mtu={netdev: mtu for netdev, mtu in mtus.items() if mtu is not None},
    )


def _pci_address(link: Path) -> str:
    with suppress(OSError):
        return link.readlink().name
    return ""


def _read_port(folder: Path, number: int) -> Port:
    return Port(
        number=number,
        state=read_text(folder / "state").partition(": ")[2],
        physical_state=read_text(folder / "phys_state").partition(": ")[2],
        link_layer=read_text(folder / "link_layer"),
        rate=read_text(folder / "rate"),
        lid=read_integer(folder / "lid", 16) or 0,
        pkey=read_integer(folder / "pkeys/0", 16),
        gids=_read_gids(folder),
    )


def _read_gids(folder: Path) -> tuple[Gid, ...]:
    """The filled slots only: a table has up to 256, nearly all empty."""
    gids = []
    for slot in list_names(folder / "gids"):
        with suppress(ValueError):
            address = IPv6Address(read_text(folder / "gids" / slot))
            # The kernel treats a GID without an interface id as empty, whatever its subnet prefix.
            if int(address) & ((1 << 64) - 1):
                kind = read_text(folder / "gid_attrs/types" / slot)
                gids.append(Gid(int(slot), address, kind, read_text(folder / "gid_attrs/ndevs" / slot)))
    return tuple(gids)
