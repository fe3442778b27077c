"""An RDMA fabric for the self-contained cluster: softverbs in the engine pods, a device plugin beside the kubelet.

Library and configurations lie in a folder of each node that pods mount, one configuration a role, so that a fault is
made on one side, by a rename, and at once.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.cluster import lifecycle
from e2e.cluster.node import Node
from e2e.device_plugin import node as device_plugin
from e2e.lib.groups import example_spec, merged
from e2e.softverbs import build

RESOURCE: Final = "rdma/hca_shared_devices_a"
FOLDER: Final = "/run/softverbs"
HEALTHY: Final = "device_nodes = real\n[mlx5_0]\nrate = 400\n"
"""Real device nodes and memlock enforced: a pod without the resource or without IPC_LOCK fails as on hardware."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """`folders` are the nodes' folders as this machine sees them."""

    nodes: tuple[Node, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(node.plan.folder / FOLDER[1:] for node in self.nodes)

    def install(self, *, units: int = 8, hcas: int = 1) -> None:
        for node, folder in zip(self.nodes, self.folders, strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(build.library(), folder / build.LIBRARY)
            device_plugin.start(node, f"--resource={RESOURCE}", f"--units={units}", f"--hcas={hcas}")
        self.heal()

    def remove(self) -> None:
        for node in self.nodes:
            device_plugin.stop(node)

    def configure(self, role: str, text: str) -> None:
        """Replace a role's devices; processes notice within 0.1 s."""
        for folder in self.folders:
            fresh = folder / f"{role}.new"
            fresh.write_text(text)
            fresh.rename(folder / f"{role}.conf")

    def change(self, role: str, *settings: str) -> None:
        """The healthy device with other settings, such as ``state = DOWN``."""
        self.configure(role, HEALTHY + "".join(f"{setting}\n" for setting in settings))

    def heal(self) -> None:
        for role in ("prefill", "decode"):
            self.configure(role, HEALTHY)


def found() -> Fabric:
    return Fabric(tuple(lifecycle.nodes()))


def rdma_spec(image: str, **transfer: Any) -> dict[str, Any]:
    """The tiny CPU group over RDMA; keyword arguments are more fields of `spec.transfer`."""
    example = example_spec(image)
    del example["transfer"]
    return merged(
        example,
        {
            "engine": {"env": [_variable("LD_PRELOAD", "/softverbs/libibverbs.so.1"), *_FILES]},
            "transfer": {"protocol": "rdma", "rdma": {"devicePlugin": {"resource": RESOURCE}}, **transfer},
            **{role: _role(role) for role in ("prefill", "decode")},
        },
    )


def _variable(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


_FILES: Final = (_variable("SOFTVERBS_TREE", "/dev/shm/softverbs"), _variable("SOFTVERBS_STATS", "/tmp"))


def _role(role: str) -> dict[str, Any]:
    mounts = [{"name": "softverbs", "mountPath": "/softverbs", "readOnly": True}]
    containers: Mapping[str, Any] = {
        "volumes": [{"name": "softverbs", "hostPath": {"path": FOLDER, "type": "Directory"}}],
        "initContainers": [{"name": "preflight", "volumeMounts": mounts}],
        "containers": [{"name": "engine", "volumeMounts": mounts}],
    }
    return {"env": [_variable("SOFTVERBS_CONFIG", f"/softverbs/{role}.conf")], "template": {"spec": containers}}
