"""The cluster that the demo and the suites run on, chosen by CLUSTER.

``self``     the cluster of this repository, started if it is not up, in namespaces of this machine
``kind``     a kind cluster named pdserving, made if there is none; images are built with docker
``context``  the current kubeconfig context; images come from where OPERATOR_IMAGE and ENGINE_IMAGE say

All differences between the three stand here: how it starts, how images reach its nodes, how a Service is reached from
this machine, and whether there is an audit log to read.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import control, paths
from e2e.lib.kubectl import Helm, Kubectl
from e2e.lib.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
KIND_CLUSTER = "pdserving"
SERVICE_KNOWN = 30.0
"""Seconds until the node's rules follow a ready pod; kube-proxy gathers changes for one."""
OPERATOR_IMAGE, ENGINE_IMAGE = "localhost/pdserving:dev", "localhost/engine-cpu:dev"
BUILD_CONTEXTS = {OPERATOR_IMAGE: ("images/operator", "."), ENGINE_IMAGE: ("images/engine-cpu", "images/engine-cpu")}
"""Image -> folder of its Dockerfile, and the folder that it copies from."""


class MissingNeedError(Exception):
    """This machine lacks something that the chosen kind of cluster needs; the message is the remedy."""


@dataclass(frozen=True, slots=True)
class Target:
    """A running cluster and the two images that it can pull."""

    name: str
    kubectl: Kubectl
    helm: Helm
    operator_image: str
    engine_image: str
    audit_log: Path | None = None
    restart_api_server: Callable[[], None] | None = None

    @contextmanager
    def reach(self, kubectl: Kubectl, service: str, port: int) -> Iterator[str]:
        """Yield a URL for a Service of the namespace that ``kubectl`` is bound to."""
        if self.name != "self":
            with kubectl.forward(f"service/{service}", port) as url:
                yield url
            return
        address = kubectl.get("service", service)["spec"]["clusterIP"]
        eventually(f"kube-proxy knows Service {service}", lambda: _accepts(address, port), within=SERVICE_KNOWN)
        yield f"http://{address}:{port}"


def _accepts(address: str, port: int) -> bool:
    with socket.create_connection((address, port), timeout=5):
        return True


def chosen() -> str:
    name = os.environ.get("CLUSTER", "self")
    if name not in {"self", "kind", "context"}:
        raise MissingNeedError(f"CLUSTER={name}: choose self, kind or context")
    return name


def as_it_is() -> bool:
    return bool(os.environ.get("PDSERVING_AS_IS"))


def start() -> Target:
    """Start the chosen cluster or find it running, and bring the images to it; idempotent.

    With PDSERVING_AS_IS=1 it is taken as it is, with the images that it has.
    """
    if as_it_is():
        return find()
    match chosen():
        case "self":
            if os.geteuid():
                raise MissingNeedError("CLUSTER=self makes namespaces, interfaces and mounts: run it as root")
            _show(sys.executable, "-m", "e2e.cluster", "up")
        case "kind":
            _start_kind()
    return find()


def find() -> Target:
    """The chosen cluster as it is."""
    return {"self": _own, "kind": _kind, "context": _context}[chosen()]()


def stop() -> None:
    """Remove the cluster, where it is ours to remove."""
    match chosen():
        case "self":
            _show(sys.executable, "-m", "e2e.cluster", "down")
        case "kind":
            _show("kind", "delete", "cluster", "--name", KIND_CLUSTER)


def _own() -> Target:
    os.environ.update(paths.CLIENT_CACHE)
    return Target(
        name="self",
        kubectl=Kubectl(str(paths.program("kubectl")), paths.KUBECONFIG),
        helm=Helm(str(paths.program("helm")), paths.KUBECONFIG),
        operator_image=OPERATOR_IMAGE,
        engine_image=ENGINE_IMAGE,
        audit_log=paths.AUDIT_LOG,
        restart_api_server=control.restart_apiserver,
    )


def _start_kind() -> None:
    for program in ("kind", "docker", "kubectl", "helm"):
        _need(program)
    clusters = subprocess.run(["kind", "get", "clusters"], capture_output=True, text=True, check=True).stdout.split()
    if KIND_CLUSTER not in clusters:
        _show("kind", "create", "cluster", "--name", KIND_CLUSTER, "--wait", "120s")
    for image, (folder, context) in BUILD_CONTEXTS.items():
        _show("docker", "build", "-t", image, "-f", f"{folder}/Dockerfile", context)
        _show("kind", "load", "docker-image", image, "--name", KIND_CLUSTER)


def _kind() -> Target:
    context = f"kind-{KIND_CLUSTER}"
    return Target(
        "kind", Kubectl("kubectl", context=context), Helm("helm", context=context), OPERATOR_IMAGE, ENGINE_IMAGE
    )


def _context() -> Target:
    for program in ("kubectl", "helm"):
        _need(program)
    operator, engine = (os.environ.get(name, "") for name in ("OPERATOR_IMAGE", "ENGINE_IMAGE"))
    if not (operator and engine):
        raise MissingNeedError("CLUSTER=context needs OPERATOR_IMAGE and ENGINE_IMAGE: images that its nodes can pull")
    return Target("context", Kubectl("kubectl"), Helm("helm"), operator, engine)


def _need(program: str) -> None:
    if not shutil.which(program):
        raise MissingNeedError(f"`{program}` is not on PATH; install it or use CLUSTER=self, which builds its own")


def _show(*command: str) -> None:
    """Run a program whose progress the user watches."""
    subprocess.run(command, check=True, cwd=ROOT)
