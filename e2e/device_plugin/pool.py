"""What the plugin offers: shares of all HCAs, as the shared device plugin does, or one HCA a unit, as SR-IOV does."""

from dataclasses import dataclass
from typing import Final

from e2e.device_plugin.messages import Device, Grant

HOST_NODE: Final = "/dev/null"
FOLDER: Final = "/dev/infiniband"


@dataclass(frozen=True, slots=True)
class Pool:
    """`units` of `resource`; `hcas` is how many uverbs devices there are. Exclusive: a unit is an HCA."""

    resource: str
    units: int
    hcas: int = 1
    exclusive: bool = False

    def devices(self, unhealthy: frozenset[str]) -> list[Device]:
        return [Device(unit, unit not in unhealthy) for unit in map(str, range(self.units))]

    def grant(self, units: list[str]) -> Grant:
        """A shared unit opens every HCA, however many units are asked for; counting them means nothing."""
        numbers = sorted(map(int, units)) if self.exclusive else range(self.hcas)
        names = [f"uverbs{number}" for number in numbers]
        nodes = {f"{FOLDER}/{name}": HOST_NODE for name in ("rdma_cm", *names)}
        return Grant(nodes, {self._variable: ",".join(map(pci_address, numbers))} if self.exclusive else {})

    @property
    def _variable(self) -> str:
        """The name under which the SR-IOV plugin tells a container its PCI addresses."""
        return "PCIDEVICE_" + "".join(c if c.isalnum() else "_" for c in self.resource.upper())


def pci_address(number: int) -> str:
    """Of softverbs' device with this position in its configuration."""
    return f"5afe:{number + 1:02x}:00.0"
