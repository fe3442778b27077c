"""What runs on a node and its configuration: pure, with the reason beside each setting that a plain node lacks."""

from typing import Any

from e2e.cluster import paths
from e2e.cluster.components import SERVICE_CIDR, Component
from e2e.cluster.topology import API_IP, LAYOUT, POD_CIDR, NodePlan

PAUSE_IMAGE = "localhost/pause:dev"
CNI_PLUGINS = "/usr/lib/cni"

COREFILE = f"""\
cluster.local:53 10.in-addr.arpa:53 {{
    bind {API_IP}
    errors
    kubernetes cluster.local 10.in-addr.arpa {{
        kubeconfig {paths.KUBECONFIG}
        ttl 5
    }}
}}
.:53 {{
    bind {API_IP}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""
"""Two blocks: inside one, `template` would answer before `kubernetes`, because plugins have a fixed order."""


def containerd_config(node: NodePlan) -> str:
    return f"""\
version = 2
root = "{node.images}"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.devmapper"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true   # without CAP_SYS_RESOURCE no process may lower its score
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
"""


def pod_network(node: NodePlan) -> dict[str, Any]:
    """The CNI configuration: a bridge with an address for each pod, and routes to nothing but the cluster."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": node.pods}]],
        "routes": [{"dst": "10.0.0.0/8"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}


def kubelet_config(node: NodePlan) -> dict[str, Any]:
    pki = LAYOUT.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki.certificate("ca"))},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki.certificate(f"serving-{node.name}")),
        "tlsPrivateKeyFile": str(pki.key(f"serving-{node.name}")),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "clusterDNS": [API_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",  # there is no systemd in a node
        "cgroupRoot": f"/{node.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,  # this and the next would need CAP_SYS_RESOURCE
        "maxOpenFiles": 16384,
        # The node's disk is the machine's: it is not the kubelet's to tidy.
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "4s",
        "syncFrequency": "10s",
    }


def proxy_config(node: NodePlan) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(LAYOUT.run / "kube-proxy.conf")},
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": node.name,
        # The machine-wide limits are read-only in a network namespace: leave them.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def containerd(node: NodePlan) -> Component:
    return Component("containerd", ("containerd", "--config", str(node.folder / "containerd.toml")))


def kubelet(node: NodePlan) -> Component:
    return _component(
        "kubelet",
        f"--config={node.folder}/kubelet.json",
        f"--kubeconfig={LAYOUT.run}/{node.name}.conf",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
    )


def kube_proxy(node: NodePlan) -> Component:
    return _component("kube-proxy", f"--config={node.folder}/kube-proxy.json")


def network_policies(node: NodePlan) -> Component:
    """kube-router, of which only the firewall runs; it exits unless its Node exists."""
    return _component(
        "kube-router",
        f"--kubeconfig={paths.KUBECONFIG}",
        f"--hostname-override={node.name}",
        "--run-firewall=true",
        "--run-router=false",
        "--run-service-proxy=false",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--health-port=0",
    )


def coredns() -> Component:
    return _component("coredns", "-conf", str(paths.RUN / "Corefile"))


def _component(name: str, *args: str) -> Component:
    return Component(name, (str(paths.program(name)), *args))
