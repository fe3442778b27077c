"""A node: its namespaces, the folders and files that it sees as its own, and the programs that run in it."""

import json
import signal
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import cgroups, network, node_components, paths
from e2e.cluster.components import Component
from e2e.cluster.holder import Holder
from e2e.cluster.shell import ClusterError, wait_for
from e2e.cluster.topology import LAYOUT, NodePlan

PRIVATE_FOLDERS = (
    "/run",
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/var/log/pods",
    "/var/log/containers",
    "/etc/cni/net.d",
)
"""Bound over the standard paths inside the node: what expects them works, and two nodes don't meet."""

SYSCTLS = {"vm/overcommit_memory": 1, "kernel/panic": 10, "kernel/panic_on_oops": 1}
"""The kubelet insists on these values; a node sees files with them, and the machine keeps its own."""

MADE_FOLDERS = paths.RUN / "made-folders"
"""Mount points that this machine lacked, one a line; `down` removes them again."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the running cluster, or one about to be created."""

    plan: NodePlan

    @property
    def holder(self) -> Holder:
        return Holder(self.plan.folder / "holder.json")

    def create(self) -> None:
        self.plan.folder.mkdir(parents=True)
        self.holder.start()
        network.attach(self.plan, self.holder.pid)
        cgroups.create(self.plan.cgroup)
        self.holder.enter("mount", "--make-rshared", "/")
        for path in PRIVATE_FOLDERS:
            source = self.plan.folder / path[1:]
            source.mkdir(parents=True)
            make_folder(Path(path))
            self.holder.enter("mount", "--bind", source, path)
        for name, value in SYSCTLS.items():
            self._write(name, f"{value}\n")
            self.holder.enter("mount", "--bind", self.plan.folder / name, f"/proc/sys/{name}")

    def start(self, component: Component) -> None:
        """Run a program inside the node, detached; remembered, so that it can be stopped and started again."""
        script = 'log=$1; shift; setsid "$@" >>"$log" 2>&1 </dev/null & echo $!'
        log = paths.LOGS / f"{self.plan.name}-{component.name}.log"
        pid = int(self.holder.enter("sh", "-c", script, "sh", log, *component.argv))
        self._write(f"{component.name}.running", json.dumps({"pid": pid, "argv": component.argv}))

    def stop(self, name: str, how: signal.Signals = signal.SIGKILL) -> Component:
        """End a program of the node, wait until it is gone, and return what `start` needs."""
        file = self.plan.folder / f"{name}.running"
        if not file.exists():
            raise ClusterError(f"{self.plan.name} runs no {name}; it has {', '.join(self.components())}")
        record = json.loads(file.read_text())
        if self.holder.runs(record["pid"]):
            self.holder.enter("kill", f"-{how.value}", record["pid"])
        wait_for(lambda: not self.holder.runs(record["pid"]), f"end of {name}")
        return Component(name, tuple(record["argv"]))

    def components(self) -> dict[str, bool]:
        """Every program that was started in the node -> whether it runs."""
        files = sorted(self.plan.folder.glob("*.running"))
        return {file.stem: self.holder.runs(json.loads(file.read_text())["pid"]) for file in files}

    def start_containerd(self) -> None:
        self._write("etc/cni/net.d/10-pods.conflist", json.dumps(node_components.pod_network(self.plan)))
        self._write("containerd.toml", node_components.containerd_config(self.plan))
        self.start(node_components.containerd(self.plan))
        wait_for(lambda: self.holder.enter("ctr", "version"), f"containerd of {self.plan.name}")

    def start_kubelet(self) -> None:
        plan, pki = self.plan, LAYOUT.pki
        user = f"system:node:{plan.name}"
        pki.kubeconfig(LAYOUT.run / f"{plan.name}.conf", server=LAYOUT.server, user=user, groups=("system:nodes",))
        pki.sign(f"serving-{plan.name}", f"/O=system:nodes/CN={user}", names=f"IP:{plan.address},DNS:{plan.name}")
        self._write("kubelet.json", json.dumps(node_components.kubelet_config(plan)))
        self._write("kube-proxy.json", json.dumps(node_components.proxy_config(plan)))
        self.start(node_components.kubelet(plan))
        self.start(node_components.kube_proxy(plan))

    def _write(self, name: str, content: str) -> None:
        file = self.plan.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def make_folder(path: Path) -> None:
    """Make a folder of the machine with its parents, and note those that were not there."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    with MADE_FOLDERS.open("a") as record:
        record.writelines(f"{folder}\n" for folder in missing)
    path.mkdir(parents=True, exist_ok=True)


def remove_made_folders() -> None:
    """Remove what `make_folder` made, unless something has been put there since."""
    for folder in map(Path, MADE_FOLDERS.read_text().splitlines() if MADE_FOLDERS.exists() else []):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
