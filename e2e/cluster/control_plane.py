"""An API server alone: etcd, kube-apiserver and kube-controller-manager on free ports of the loopback, without nodes.

For tests that need real admission, server-side apply, watches, garbage collection or an audit log, but no pods. Needs
no root, touches nothing but its own temporary folder, and any number of them run beside each other and the cluster.
"""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from e2e.cluster import components, paths, shell
from e2e.cluster.components import Component, Layout
from e2e.cluster.shell import ClusterError, run, wait_for


def write_identities(layout: Layout) -> None:
    """Make everything that the components read before the first start: certificates, kubeconfigs, audit policy."""
    layout.pki.create(api_names=layout.api_names)
    layout.pki.kubeconfig(layout.admin, server=layout.server, user="admin", groups=("system:masters",))
    for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy"):
        layout.pki.kubeconfig(layout.run / f"{name}.conf", server=layout.server, user=f"system:{name}")
    layout.audit_policy.write_text(json.dumps(components.AUDIT_POLICY))


def is_ready(layout: Layout) -> bool:
    """Whether the API server says so itself; it tells anyone."""
    trusted = ssl.create_default_context(cafile=layout.pki.certificate("ca"))
    server = urlsplit(layout.server).netloc
    with closing(HTTPSConnection(server, context=trusted, timeout=5)) as connection:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == HTTPStatus.OK


class ControlPlane:
    """`with ControlPlane() as plane:` starts it; leaving the block ends every process and removes its folder."""

    def __init__(self, *, controllers: bool = True, scheduler: bool = False) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pdserving-api-"))
        api, etcd, peer = free_ports(3)
        self.layout = Layout(paths.BIN, self._folder, api_port=api, etcd_port=etcd, etcd_peer_port=peer)
        self._components = [components.etcd(self.layout), components.apiserver(self.layout)]
        if controllers:
            self._components.append(components.controller_manager(self.layout, secure_port=0))
        if scheduler:
            self._components.append(components.scheduler(self.layout, secure_port=0))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def kubeconfig(self) -> Path:
        """Admin credentials."""
        return self.layout.admin

    @property
    def audit_log(self) -> Path:
        return self.layout.audit_log

    def credentials(self, user: str, *groups: str) -> Path:
        """A kubeconfig of its own for `user`, who has only the rights that RBAC gives; the audit log names the user."""
        path = self._folder / f"{user.replace(':', '-')}.conf"
        return self.layout.pki.kubeconfig(path, server=self.layout.server, user=user, groups=groups)

    def kubectl(self, *args: object) -> str:
        return run(self.layout.bin / "kubectl", f"--kubeconfig={self.kubeconfig}", *args)

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self.close)
            self._start()
            undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _start(self) -> None:
        if not (self.layout.bin / "kube-apiserver").exists():
            raise ClusterError(f"no kube-apiserver in {self.layout.bin}; build it with `python -m e2e.cluster build`")
        write_identities(self.layout)
        for component in self._components:
            self.start(component.name)
            if component.name == "kube-apiserver":
                self.wait_until_ready()
        if "kube-controller-manager" in self._processes:
            self._wait(lambda: self.kubectl("get", "serviceaccount", "default"), "the controller manager")

    def start(self, name: str) -> None:
        """Start one component, at first or after `stop`."""
        component = self._component(name)
        with (self._folder / f"{name}.log").open("ab") as log:
            # A test run that is killed takes them along.
            argv = ("setpriv", "--pdeathsig", "KILL", "--", *component.argv)
            self._processes[name] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End one component: SIGKILL is a crash, SIGTERM a maintenance."""
        process = self._processes.pop(name)
        process.send_signal(how)
        process.wait(timeout=60)

    def restart_apiserver(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the API server, start it again and wait until it serves: every watch and connection is lost."""
        self.stop("kube-apiserver", how)
        self.start("kube-apiserver")
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        self._wait(lambda: is_ready(self.layout), "the API server")

    def close(self) -> None:
        for name in reversed(list(self._processes)):
            self.stop(name)
        if not os.environ.get("PDSERVING_KEEP"):
            shutil.rmtree(self._folder, ignore_errors=True)

    def _component(self, name: str) -> Component:
        return next(component for component in self._components if component.name == name)

    def _wait(self, ready: Callable[[], object], what: str) -> None:
        try:
            wait_for(ready, what, seconds=120)
        except ClusterError as error:
            ends = (f"--- {log.name}\n{shell.tail(log, 8)}" for log in sorted(self._folder.glob("*.log")))
            raise ClusterError("\n".join([str(error), *ends])) from None


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now; all are held until the last is found, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
