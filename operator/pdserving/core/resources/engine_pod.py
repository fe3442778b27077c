"""The pod template of an engine: one vLLM server, its devices, volumes, probes and rights.

Under protocol tcp the pod satisfies Pod Security `restricted`. Under rdma it runs as root with IPC_LOCK, because
Kubernetes has no ambient capabilities and the capability does nothing for another user (KEP-2763); where the nodes'
container runtime allows unlimited locked memory, a template may set runAsUser and drop IPC_LOCK again.
"""

from typing import Any

from pdserving.api import labels
from pdserving.api.owned import OWNED_ENV
from pdserving.core import engine
from pdserving.core.actions import Defaults
from pdserving.core.group import Group
from pdserving.core.names import Role
from pdserving.core.resources import hca, topology
from pdserving.core.resources.metadata import build_pod_labels
from pdserving.core.resources.preflight_container import build_preflight
from pdserving.core.template import Owned, merge_template

PRE_STOP_SECONDS = 5
"""Between the start of a pod's deletion and SIGTERM: the proxies' watch sees it in well under a second, and a request
that reaches vLLM after SIGTERM is aborted with an empty answer (measured on 0.32)."""
GRACE_MARGIN_SECONDS = 15
STARTUP_PERIOD_SECONDS = 2
SHM_LIMIT = "8Gi"
"""A limit, not a reservation. vLLM refuses to start with less than 160 MiB (0.32); NCCL takes more with tensor
parallelism."""
USER = 65532
ENGINE = ("spec", "containers", f"name={labels.ENGINE_CONTAINER}")


def build_engine_pod(group: Group, role: Role, lane: str, image: str, defaults: Defaults) -> dict[str, Any]:
    """Raises `TemplateError` if the user's template can't be merged."""
    container = _build_container(group, role, image)
    preflight = build_preflight(group, role, container, defaults)
    base = {
        "metadata": {
            "labels": {**build_pod_labels(group, role), labels.LANE_LABEL: lane},
            "annotations": {labels.RANKS: _ranks(group, role), **hca.build_annotations(group)},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": (
                PRE_STOP_SECONDS + group.role(role).shutdown_timeout_seconds + GRACE_MARGIN_SECONDS
            ),
            "securityContext": _pod_security(group),
            **hca.build_pod_claims(group),
            **hca.build_network(group),
            **topology.build_topology(group, role, lane),
            **({"initContainers": [preflight]} if preflight else {}),
            "containers": [container],
            "volumes": _build_volumes(group),
        },
    }
    owned = [*_owned(role, base), *topology.find_owned(group)]
    return merge_template(base, group.role(role).template, owned, f"spec.{role}.template", labels.ENGINE_CONTAINER)


def _ranks(group: Group, role: Role) -> str:
    sizes = group.role(role).parallelism
    return f"{sizes.data}x{sizes.tensor}x{sizes.pipeline}"


def _build_container(group: Group, role: Role, image: str) -> dict[str, Any]:
    bootstrap = [{"name": "bootstrap", "containerPort": labels.BOOTSTRAP_PORT}] if role == "prefill" else []
    return {
        "name": labels.ENGINE_CONTAINER,
        "image": image,
        "imagePullPolicy": group.spec.engine.image_pull_policy,
        "command": engine.build_command(group),
        "args": engine.build_args(group, role),
        "env": engine.build_env(group, role),
        "ports": [{"name": "http", "containerPort": group.port(role)}, *bootstrap],
        "resources": _build_resources(group, role),
        **_build_probes(group.role(role).startup_timeout_seconds),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
        "securityContext": _container_security(group),
        "volumeMounts": _build_mounts(group),
    }


def _build_resources(group: Group, role: Role) -> dict[str, Any]:
    """Extended resources stand in the limits; requests follow by themselves."""
    spec = group.role(role)
    limits = dict(spec.resources.limits)
    if spec.gpus:
        limits[spec.gpu_resource] = str(spec.gpus)
    limits |= hca.build_limits(group)
    parts = {"requests": dict(spec.resources.requests), "limits": limits, **hca.build_claims(group)}
    return {name: part for name, part in parts.items() if part}


def _build_probes(startup_timeout: int) -> dict[str, Any]:
    """All ask /health, which tells that the engine process lives (503 after an EngineDeadError), not that it is fast.

    Startup leaves time for downloading and loading the model. On prefill /health also proves that the ranks registered:
    a failed registration ends the start (vLLM ≥ 0.32). Liveness tells slow from dead: only two minutes without an
    answer are dead, since a busy engine may miss a probe or two.
    """
    starts = -(-startup_timeout // STARTUP_PERIOD_SECONDS)
    return {
        "startupProbe": _probe(period=STARTUP_PERIOD_SECONDS, timeout=2, failures=starts),
        "readinessProbe": _probe(period=3, timeout=5, failures=2),
        "livenessProbe": _probe(period=15, timeout=10, failures=8),
    }


def _probe(*, period: int, timeout: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


def _pod_security(group: Group) -> dict[str, Any]:
    profile = {"seccompProfile": {"type": "RuntimeDefault"}}
    if group.spec.transfer.protocol == "rdma":
        return {"runAsUser": 0, "runAsGroup": 0, **profile}
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        **profile,
    }


def _container_security(group: Group) -> dict[str, Any]:
    if hca.needs_privileges(group):
        return {"privileged": True, "readOnlyRootFilesystem": True}
    capabilities: dict[str, Any] = {"drop": ["ALL"]}
    if group.spec.transfer.protocol == "rdma":
        capabilities["add"] = ["IPC_LOCK"]
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": capabilities}


def _build_volumes(group: Group) -> list[dict[str, Any]]:
    source = group.spec.model.source
    volumes: list[dict[str, Any]] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM_LIMIT}},
        {"name": "tmp", "emptyDir": {}},
    ]
    if source.hugging_face:
        volumes.append({"name": "model-cache", "emptyDir": {}})
    elif source.persistent_volume_claim:
        claim = {"claimName": source.persistent_volume_claim.name, "readOnly": True}
        volumes.append({"name": "model", "persistentVolumeClaim": claim})
    elif source.image:
        image = {"reference": source.image.reference, "pullPolicy": source.image.pull_policy}
        volumes.append({"name": "model", "image": image})
    elif source.host_path:
        volumes.append({"name": "model", "hostPath": {"path": source.host_path.path, "type": "Directory"}})
    return volumes


def _build_mounts(group: Group) -> list[dict[str, Any]]:
    source = group.spec.model.source
    mounts: list[dict[str, Any]] = [
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 -- a volume of the pod
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
    ]
    if source.hugging_face:
        mounts.append({"name": "model-cache", "mountPath": engine.MODEL_CACHE_MOUNT})
    elif not source.in_image:
        mounts.append({"name": "model", "mountPath": engine.MODEL_MOUNT, "readOnly": True})
    return mounts


def _owned(role: Role, base: dict[str, Any]) -> list[Owned]:
    return [
        *(Owned(("metadata", "labels", key), "remove it") for key in base["metadata"]["labels"]),
        Owned(("metadata", "annotations", labels.RANKS), "remove it"),
        *(
            Owned(("metadata", "annotations", hca.NETWORKS), "use spec.transfer.rdma.hostDevice.networks")
            for key in base["metadata"]["annotations"]
            if key == hca.NETWORKS
        ),
        Owned((*ENGINE, "image"), f"use spec.{role}.image or spec.engine.image"),
        Owned((*ENGINE, "imagePullPolicy"), "use spec.engine.imagePullPolicy"),
        Owned((*ENGINE, "args"), f"use spec.{role}.args"),
        Owned((*ENGINE, "ports", "name=http"), "use spec.engine.port"),
        Owned((*ENGINE, "ports", "name=bootstrap"), "remove it"),
        Owned((*ENGINE, "lifecycle", "preStop"), "remove it: it keeps requests away from an engine that stops"),
        Owned((*ENGINE, "volumeMounts", f"mountPath={engine.MODEL_MOUNT}"), "use spec.model.source"),
        *(Owned((*ENGINE, "env", f"name={name}"), remedy) for name, remedy in OWNED_ENV.items()),
        Owned(("spec", "volumes", "name=model"), "use spec.model.source"),
        Owned(("spec", "terminationGracePeriodSeconds"), f"use spec.{role}.shutdownTimeoutSeconds"),
        Owned(("spec", "hostNetwork"), "use spec.transfer.rdma.hostNetwork"),
        Owned(("spec", "restartPolicy"), "remove it"),
        Owned(("spec", "hostname"), "remove it: the StatefulSet names its pods"),
        Owned(("spec", "subdomain"), "remove it: the StatefulSet names its pods"),
    ]
