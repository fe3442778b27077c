"""The control plane's programs and what they are told: pure, so that it can be read and tested without root.

The same command lines serve the cluster, on its fixed addresses, and the api tier, on free ports of the loopback.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.pki import Pki

SERVICE_CIDR = "10.96.0.0/16"
KUBERNETES_SERVICE_IP = "10.96.0.1"

AUDIT_POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
"""Every request with its user and verb: tests read from it who wrote what, and which rights were used."""


@dataclass(frozen=True, slots=True)
class Component:
    """A long-running program of the cluster; its log is `<name>.log`."""

    name: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one control plane keeps its files and listens."""

    bin: Path
    run: Path
    host: str = "127.0.0.1"
    api_port: int = 6443
    etcd_port: int = 2379
    etcd_peer_port: int = 2380

    @property
    def pki(self) -> Pki:
        return Pki(self.run / "pki")

    @property
    def server(self) -> str:
        return f"https://{self.host}:{self.api_port}"

    @property
    def audit_log(self) -> Path:
        return self.run / "audit.log"

    @property
    def audit_policy(self) -> Path:
        return self.run / "audit-policy.json"

    @property
    def admin(self) -> Path:
        return self.run / "admin.conf"

    @property
    def api_names(self) -> str:
        """The subjectAltName of the API server."""
        service = "kubernetes.default.svc"
        names = ("kubernetes", "kubernetes.default", service, f"{service}.cluster.local")
        addresses = dict.fromkeys((self.host, "127.0.0.1", KUBERNETES_SERVICE_IP))
        return ",".join([f"IP:{address}" for address in addresses] + [f"DNS:{name}" for name in names])


def etcd(layout: Layout) -> Component:
    client, peer = (f"http://127.0.0.1:{port}" for port in (layout.etcd_port, layout.etcd_peer_port))
    return Component(
        "etcd",
        (
            str(layout.bin / "etcd"),
            f"--data-dir={layout.run}/etcd",
            "--unsafe-no-fsync",  # nothing in it outlives `down`
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ),
    )


def apiserver(layout: Layout) -> Component:
    pki = layout.pki
    flags = {
        "etcd-servers": f"http://127.0.0.1:{layout.etcd_port}",
        "bind-address": "0.0.0.0" if layout.host != "127.0.0.1" else layout.host,
        "advertise-address": layout.host,
        "secure-port": layout.api_port,
        "tls-cert-file": pki.certificate("apiserver"),
        "tls-private-key-file": pki.key("apiserver"),
        "client-ca-file": pki.certificate("ca"),
        "service-account-key-file": pki.key("sa"),
        "service-account-signing-key-file": pki.key("sa"),
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-cluster-ip-range": SERVICE_CIDR,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "audit-policy-file": layout.audit_policy,
        "audit-log-path": layout.audit_log,
        "audit-log-maxsize": 2000,  # MB; a rotated file would hide requests from a test that reads this one
        "kubelet-client-certificate": pki.certificate("client-admin"),
        "kubelet-client-key": pki.key("client-admin"),
        "kubelet-preferred-address-types": "InternalIP",
        "kubelet-certificate-authority": pki.certificate("ca"),
    }
    return Component("kube-apiserver", (str(layout.bin / "kube-apiserver"), *_flags(flags)))


def controller_manager(layout: Layout, *, secure_port: int = 10257) -> Component:
    """`secure_port` 0 serves no metrics: a second control plane on the same loopback needs no port then."""
    pki = layout.pki
    flags = {
        "kubeconfig": layout.run / "kube-controller-manager.conf",
        "service-account-private-key-file": pki.key("sa"),
        "root-ca-file": pki.certificate("ca"),
        "cluster-signing-cert-file": pki.certificate("ca"),
        "cluster-signing-key-file": pki.key("ca"),
        "use-service-account-credentials": "true",
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": secure_port,
    }
    return Component("kube-controller-manager", (str(layout.bin / "kube-controller-manager"), *_flags(flags)))


def scheduler(layout: Layout, *, secure_port: int = 10259) -> Component:
    flags = {
        "kubeconfig": layout.run / "kube-scheduler.conf",
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": secure_port,
    }
    return Component("kube-scheduler", (str(layout.bin / "kube-scheduler"), *_flags(flags)))


def _flags(values: dict[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]
