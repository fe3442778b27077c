"""``spec.transfer``: how KV cache moves from prefill to decode engines."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from pdserving.api.v1alpha1.base import LabelKey, Model, ObjectName, ResourceName, rule, rules

NetworkName = Annotated[
    str,
    Field(min_length=1, max_length=317, pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"),
]
ONE_MODE = "set exactly one of devicePlugin, hostDevice, resourceClaim and hostNetwork"
HcaName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9_.:-]+$")]


class DevicePlugin(Model):
    resource: ResourceName
    """Extended resource of an RDMA shared device plugin, such as rdma/hca_shared_devices_a."""
    count: Annotated[int, Field(ge=1, le=64)] = 1
    """How many of them each engine pod asks for. With a shared device plugin one unit already opens every HCA of
    the pool, so this only limits how many pods share a node."""


class HostDevice(Model):
    resource: ResourceName
    """Extended resource of an SR-IOV or host-device plugin, such as nvidia.com/hostdev. A unit is one HCA; each engine
    pod asks for as many as it has networks."""
    networks: Annotated[tuple[NetworkName, ...], Field(min_length=1, max_length=16)]
    """NetworkAttachmentDefinitions as NAME or NAMESPACE/NAME, one for each HCA; the same name twice for two of it.
    Multus attaches them to each engine pod."""


class ResourceClaim(Model):
    template_name: ObjectName
    """ResourceClaimTemplate in the group's namespace that describes the HCAs of one engine pod. To have GPU and HCA on
    one PCIe root, let it claim both, and set gpus of the roles to 0."""


class HostNetwork(Model):
    resource: ResourceName | None = None
    """Extended resource of a device plugin that hands out the HCAs. By default the engine container is privileged,
    which gives it every device of the node."""


class Rdma(Model):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "[has(self.devicePlugin), has(self.hostDevice), has(self.resourceClaim), has(self.hostNetwork)]"
                ".filter(x, x).size() == 1",
                f"name the way to the HCAs: {ONE_MODE}",
            )
        )
    )

    device_plugin: DevicePlugin | None = None
    """HCAs by an extended resource of a device plugin, in the pod's own network."""
    host_device: HostDevice | None = None
    """HCAs with their network interface, by a device plugin and Multus."""
    resource_claim: ResourceClaim | None = None
    """HCAs by dynamic resource allocation (Kubernetes 1.34 and later)."""
    host_network: HostNetwork | None = None
    """HCAs and addresses of the node itself. Prefill engines take engine.port and 8998 of their node, decode engines
    engine.port + 1, so a node has room for one of each; the scheduler counts the ports. NetworkPolicies do not protect
    such pods: whoever reaches the node reaches the engines."""


class TopologyRule(Model):
    key: LabelKey
    """Label of nodes; those with one value are a domain: kubernetes.io/hostname, topology.kubernetes.io/zone, or your
    provider's label of the leaf switch or the fabric. A node without the label is in no domain."""
    mode: Literal["Preferred", "Required", "Spread"] = "Preferred"
    """Preferred puts the engines into one domain where there is room. Required puts them nowhere else: the first engine
    takes a domain, and those that find no room there wait. Spread does the opposite with the engines of each role, as
    far as there is room."""


Topology = Annotated[
    tuple[TopologyRule, ...],
    Field(
        max_length=4,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
    ),
]


class TransferSpec(Model):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.protocol != 'rdma' || has(self.rdma)",
                "protocol rdma needs transfer.rdma: set one of its modes, or choose protocol tcp",
            ),
            rule(
                "self.protocol != 'tcp' || !has(self.rdma)",
                "protocol tcp uses no HCA: remove transfer.rdma, or choose protocol rdma",
            ),
            rule(
                "self.protocol != 'tcp' || !(has(self.hcas) || has(self.gidIndex) || has(self.gpuDirect))",
                "hcas, gidIndex and gpuDirect are for protocol rdma: remove them, or choose protocol rdma",
            ),
        )
    )

    protocol: Literal["rdma", "tcp"]
    """What carries KV cache. rdma insists on a usable HCA: an engine without one fails at its start and never falls
    back to TCP. tcp needs no device and runs under Pod Security restricted, and is many times slower."""
    rdma: Rdma | None = None
    """How engine pods get their HCAs. Required with protocol rdma. The pods then run as root with IPC_LOCK, because
    the capability has no effect for other users, so the namespace must allow Pod Security privileged."""
    hcas: Annotated[tuple[HcaName, ...], Field(min_length=1, max_length=32)] | None = None
    """RDMA devices that Mooncake may use, such as mlx5_0. By default all that it finds in the pod."""
    gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    """GID index of every HCA; for RoCE v2 often 3. By default Mooncake chooses."""
    gpu_direct: Literal["auto", "peermem", "dmabuf"] | None = None
    """How GPU memory is registered with the HCA: peermem needs the nvidia_peermem kernel module, dmabuf the open GPU
    kernel driver. auto, the default with protocol rdma, takes peermem where the node has loaded the module, else
    dmabuf; it needs a shell in the engine image."""
    topology: Topology = ()
    """Where prefill and decode engines stand to one another, each rule for another label. Engines that can't exchange
    KV cache, those of two lanes during a change, don't count. By default the scheduler places engines as it likes."""
    preflight: Literal["enforce", "warn", "skip"] = "enforce"
    """With protocol rdma each engine pod checks its HCAs, memory limits and addresses before it loads the model.
    enforce does not let it start when a check fails, warn only reports in the condition PreflightPassed, skip checks
    nothing."""
    abort_timeout_seconds: Annotated[int, Field(ge=5, le=3600)] = 60
    """How long a prefill engine keeps KV cache that nobody fetches. A decode engine waits 60 s longer for an answer."""
    load_failure_policy: Literal["recompute", "fail"] = "recompute"
    """What a decode engine does when KV cache can't be fetched: compute the prompt itself, or fail the request."""
    workers: Annotated[int, Field(ge=1, le=256)] = 32
    """Sender threads of each prefill rank. Twice as many fetches may wait at once; more queue behind them."""
