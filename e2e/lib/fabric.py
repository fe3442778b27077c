"""An RDMA fabric for the self-contained cluster: softverbs in the engine pods, a device plugin beside the kubelet.

Library and configurations lie in a folder of each node that pods mount, one configuration a role, so that a fault is
made on one side, by a rename, and at once. Each group takes one of two machines: one has a single RoCE device, the
other three on InfiniBand.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.cluster import lifecycle
from e2e.cluster.node import Node
from e2e.device_plugin import node as device_plugin
from e2e.lib.engine import Engine
from e2e.lib.groups import example_spec, merged
from e2e.softverbs import build

RESOURCE: Final = "rdma/hca_shared_devices_a"
FOLDER: Final = "/run/softverbs"
REAL_NODES: Final = "device_nodes = real\n"
"""And memlock is enforced: a pod without the resource or without IPC_LOCK fails as on hardware."""
SINGLE, RAILS = "single", "rails"
HCAS: Final = ("mlx5_0", "mlx5_1", "mlx5_2")
ROLES: Final = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class Fabric:
    """`folders` are the nodes' folders as this machine sees them."""

    nodes: tuple[Node, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(node.plan.folder / FOLDER[1:] for node in self.nodes)

    def install(self, *, units: int = 8) -> None:
        for node, folder in zip(self.nodes, self.folders, strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(build.library(), folder / build.LIBRARY)
            device_plugin.start(node, f"--resource={RESOURCE}", f"--units={units}", f"--hcas={len(HCAS)}")
        self.heal()

    def remove(self) -> None:
        for node in self.nodes:
            device_plugin.stop(node)

    def change(self, role: str, *settings: str) -> None:
        """The single device with other settings, such as ``state = DOWN``; processes notice within 0.1 s."""
        self._configure(f"{SINGLE}-{role}", device("mlx5_0", *settings))

    def change_rail(self, role: str, hca: str, *settings: str) -> None:
        """One of the three devices with other settings."""
        rails = (device(name, *_INFINIBAND, *(settings if name == hca else ())) for name in HCAS)
        self._configure(f"{RAILS}-{role}", *rails)

    def heal(self) -> None:
        for role in ROLES:
            self.change(role)
            self.change_rail(role, "")

    def _configure(self, name: str, *devices: str) -> None:
        for folder in self.folders:
            fresh = folder / f"{name}.new"
            fresh.write_text(REAL_NODES + "".join(devices))
            fresh.rename(folder / f"{name}.conf")


def device(name: str, *settings: str) -> str:
    """A section of softverbs' configuration."""
    return "".join(f"{line}\n" for line in (f"[{name}]", "rate = 400", *settings))


def found() -> Fabric:
    return Fabric(tuple(lifecycle.nodes()))


def moved(engine: Engine, counter: str, *hcas: str) -> int:
    """A counter of some devices (default: all), such as tx_bytes, over all processes of an engine pod."""
    processes = json.loads(engine.kubectl.execute_in(engine.pod, "python", "-c", _STATS))
    devices = [found for process in processes for found in process["devices"].items()]
    return sum(int(counters[counter]) for name, counters in devices if name in (hcas or HCAS))


def rdma_spec(image: str, machine: str = SINGLE, **transfer: Any) -> dict[str, Any]:
    """The tiny CPU group over RDMA; keyword arguments are more fields of `spec.transfer`."""
    example = example_spec(image)
    del example["transfer"]
    return merged(
        example,
        {
            "engine": {"env": [_variable("LD_PRELOAD", "/softverbs/libibverbs.so.1"), *_FILES]},
            "transfer": {"protocol": "rdma", "rdma": {"devicePlugin": {"resource": RESOURCE}}, **transfer},
            **{role: _role(role, machine) for role in ROLES},
        },
    )


def _variable(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


_STATS: Final = "import glob, json; print(json.dumps([json.load(open(f)) for f in glob.glob('/tmp/*.json')]))"
_INFINIBAND: Final = ("link_layer = InfiniBand",)
_FILES: Final = (_variable("SOFTVERBS_TREE", "/dev/shm/softverbs"), _variable("SOFTVERBS_STATS", "/tmp"))


def _role(role: str, machine: str) -> dict[str, Any]:
    mounts = [{"name": "softverbs", "mountPath": "/softverbs", "readOnly": True}]
    containers: Mapping[str, Any] = {
        "volumes": [{"name": "softverbs", "hostPath": {"path": FOLDER, "type": "Directory"}}],
        "initContainers": [{"name": "preflight", "volumeMounts": mounts}],
        "containers": [{"name": "engine", "volumeMounts": mounts}],
    }
    return {
        "env": [_variable("SOFTVERBS_CONFIG", f"/softverbs/{machine}-{role}.conf")],
        "template": {"spec": containers},
    }
