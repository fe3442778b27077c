"""The init container that checks an engine pod's devices before vLLM loads a model.

It gets what the engine container gets: the same devices (plugins inject them per container; the scheduler counts init
and app containers by their maximum, so it costs nothing), the same rights, /dev/shm and environment. Its answer is its
termination message, so engine pods need no API rights.
"""

import copy
from collections.abc import Mapping
from typing import Any

from pdserving.api import labels
from pdserving.core import engine
from pdserving.core.actions import Defaults
from pdserving.core.diff import stamp, unstamp
from pdserving.core.group import Group
from pdserving.core.names import Role
from pdserving.core.resources import hca
from pdserving.core.template import look_up

PREFIX = "PDSERVING_PREFLIGHT_"
INIT_CONTAINERS = ("spec", "template", "spec", "initContainers")
SHM = {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108 -- a volume of the pod
LIMITS = {"memory": "256Mi"}
"""Python and the 64 MiB that are pinned as a trial. No GPU: what is asked of its driver, every container sees."""
MIN_SHM_BYTES = 160 << 20
"""Less, and vLLM refuses to start (0.32)."""


def build_preflight(
    group: Group, role: Role, container: Mapping[str, Any], defaults: Defaults
) -> dict[str, Any] | None:
    """None where nothing is to be checked. `container` is the engine's, built: its rights are taken over."""
    if not group.preflight:
        return None
    mode = group.spec.transfer.preflight
    return {
        "name": labels.PREFLIGHT_CONTAINER,
        "image": defaults.proxy_image,
        "imagePullPolicy": defaults.proxy_image_pull_policy,
        "args": ["preflight", f"--mode={mode}", "--termination-log=/dev/termination-log"],
        "env": _build_env(group, role),
        "resources": {"limits": {**LIMITS, **hca.build_limits(group)}, **hca.build_claims(group)},
        "securityContext": container["securityContext"],
        "volumeMounts": [SHM],
    }


def _build_env(group: Group, role: Role) -> list[dict[str, Any]]:
    """The engine's variables without its secrets, and what the spec expects of the devices."""
    transfer = group.spec.transfer
    wanted = {
        "PROTOCOL": transfer.protocol,
        "GPU_DIRECT": transfer.gpu_direct or "auto",
        "HCAS": ",".join(transfer.hcas or ()),
        "SHM_BYTES": str(MIN_SHM_BYTES),
        "DEVICES": str(hca.count_devices(group) or ""),
    }
    shared = [variable for variable in engine.build_env(group, role) if "secretKeyRef" not in str(variable)]
    return [*shared, *({"name": PREFIX + name, "value": value} for name, value in wanted.items() if value)]


def keep_running_image(desired: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
    """The engine set with the preflight image that it runs, so that upgrading the operator alone restarts no engine."""
    containers = look_up(desired, INIT_CONTAINERS)
    running = look_up(live, (*INIT_CONTAINERS, f"name={labels.PREFLIGHT_CONTAINER}"))
    if not containers or not running:
        return desired
    kept = copy.deepcopy(unstamp(desired))
    for container in look_up(kept, INIT_CONTAINERS):
        if container["name"] == labels.PREFLIGHT_CONTAINER:
            container |= {key: running[key] for key in ("image", "imagePullPolicy") if key in running}
    return stamp(kept)
