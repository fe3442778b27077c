"""Bring the cluster up, tell how it is, take it down; each can be interrupted and run again.

`cluster.json` is written last by `up`: without it, or with another content than this source tree would write, what
runs is replaced.
"""

import json
import os
import shutil
from pathlib import Path

from e2e.cluster import (
    binaries,
    cache,
    cgroups,
    components,
    console,
    control_plane,
    network,
    node_components,
    node_images,
    packages,
    paths,
    versions,
)
from e2e.cluster.node import Node, remove_made_folders
from e2e.cluster.shell import ClusterError, run, wait_for
from e2e.cluster.topology import LAYOUT, MOST_NODES, NodePlan

RECORD = paths.RUN / "cluster.json"
DECIDING_MODULES = ("components", "node_components", "topology", "node", "network", "cgroups")
CONTROL_PROGRAMS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns"}
NODE_PROGRAMS = {"containerd", "kubelet", "kube-proxy", "kube-router"}


def up(count: int | None = None) -> None:
    """Have a cluster run: the one that runs if it is sound and has `count` nodes (None: any), else a new one."""
    if count is not None and not 1 <= count <= MOST_NODES:
        raise ClusterError(f"--nodes: 1 to {MOST_NODES}, not {count}")
    packages.ensure(versions.DEBIAN_PACKAGES)
    if not paths.RUN.exists():
        network.refuse_conflicts()  # before a quarter of an hour of building
    binaries.ensure()
    packages.ensure_unpacked(versions.UNPACKED_PACKAGES)
    with cache.lock("cluster"):
        if paths.RUN.exists():
            if not (reason := fault(count)):
                console.say(f"the cluster is up: Kubernetes {versions.KUBERNETES}, {len(nodes())} node(s)")
                return
            console.say(f"replacing the cluster that runs: {reason}")
            _down()
        network.refuse_conflicts()
        with console.step(f"starting Kubernetes {versions.KUBERNETES}, {count or 1} node(s)"):
            _start(count or 1)


def down() -> None:
    """End the cluster and leave nothing of it on the machine but the cache."""
    with cache.lock("cluster"):
        if not paths.RUN.exists():
            console.say("no cluster is up")
            return
        with console.step("taking the cluster down"):
            _down()


def nodes() -> list[Node]:
    """The nodes of the cluster that runs, or of one that was interrupted while it started."""
    found = [Node(NodePlan(number + 1)) for number in range(MOST_NODES)]
    return [node for node in found if node.plan.folder.exists()]


def fault(count: int | None = None) -> str:
    """Why what runs is not what `up` would make, or nothing; `count` is the wanted number of nodes, if any."""
    found = nodes()
    if not RECORD.exists():
        return "its start was interrupted"
    if count not in {None, len(found)}:
        return f"it has {len(found)} node(s), not {count}"
    if json.loads(RECORD.read_text()) != _identity(len(found)):
        return "it was started from other versions or another configuration"
    for node in found:
        running = {name for name, runs in node.components().items() if runs}
        if missing := _required(node) - running:
            return f"{', '.join(sorted(missing))} of {node.plan.name} does not run"
    return "" if _answers() else "its API server does not answer"


def kubectl(*args: object) -> str:
    env = os.environ | paths.CLIENT_CACHE
    return run(paths.program("kubectl"), f"--kubeconfig={paths.KUBECONFIG}", *args, env=env)


def _required(node: Node) -> set[str]:
    """Tests may run more in a node, and stop it again: that is theirs."""
    return NODE_PROGRAMS | (CONTROL_PROGRAMS if node.plan.number == 1 else set())


def _answers() -> bool:
    """Patient, because what does not answer is replaced, and a busy machine is not a broken cluster."""
    try:
        wait_for(lambda: control_plane.is_ready(LAYOUT), "the API server", seconds=30)
    except ClusterError:
        return False
    return True


def _identity(count: int) -> dict[str, object]:
    sources = (Path(__file__).with_name(f"{module}.py") for module in DECIDING_MODULES)
    return {"programs": versions.programs_key(), "sources": cache.content_key(sources), "nodes": count}


def _start(count: int) -> None:
    paths.LOGS.mkdir(parents=True)
    control_plane.write_identities(LAYOUT)
    network.create()
    started = [Node(NodePlan(number + 1)) for number in range(count)]
    for node in started:
        node.create()
        node.start_containerd()
        node_images.load_pause(node)
    for node in started:
        for other in started:
            if other is not node:
                network.connect(node.plan, other.plan, node.holder.pid)
    _start_control_plane(started[0])
    for node in started:
        node.start_kubelet()
    _wait_for_nodes(started)
    RECORD.write_text(json.dumps(_identity(count)))


def _start_control_plane(node: Node) -> None:
    node.start(components.etcd(LAYOUT))
    node.start(components.apiserver(LAYOUT))
    wait_for(lambda: control_plane.is_ready(LAYOUT), f"the API server (logs in {paths.LOGS})")
    node.start(components.controller_manager(LAYOUT))
    node.start(components.scheduler(LAYOUT))
    (paths.RUN / "Corefile").write_text(node_components.COREFILE)
    node.start(node_components.coredns())


def _wait_for_nodes(started: list[Node]) -> None:
    names = [f"node/{node.plan.name}" for node in started]
    wait_for(lambda: kubectl("get", "serviceaccount", "default"), f"the controller manager (logs in {paths.LOGS})")
    wait_for(lambda: kubectl("get", *names), f"the kubelets (logs in {paths.LOGS})")
    for node in started:
        node.start(node_components.network_policies(node.plan))
    kubectl("wait", "--for=condition=Ready", "--timeout=120s", *names)


def _down() -> None:
    for node in nodes():
        node.holder.kill()
    network.remove()
    for node in nodes():
        cgroups.remove(node.plan.cgroup)
    remove_made_folders()
    shutil.rmtree(paths.RUN)
