"""The pod template of a proxy. It satisfies Pod Security `restricted`."""

from typing import Any

from pdserving.api import labels
from pdserving.core import names
from pdserving.core.group import Group
from pdserving.core.proxy_secrets import build_mount, build_options, build_volume, find_mounted
from pdserving.core.resources.metadata import build_pod_labels, build_selector
from pdserving.core.template import Owned, merge_template

PRE_STOP_SECONDS = 5
"""Until the Service no longer sends new connections here."""
GRACE_MARGIN_SECONDS = 10
PROXY = ("spec", "containers", f"name={labels.PROXY_CONTAINER}")


def build_proxy_pod(group: Group, image: str, pull_policy: str) -> dict[str, Any]:
    """Raises `TemplateError` if the user's template can't be merged."""
    drain = group.spec.proxy.timeouts.drain_seconds
    volumes = [build_volume(mounted) for mounted in find_mounted(group.spec.proxy)]
    base = {
        "metadata": {"labels": build_pod_labels(group, labels.PROXY)},
        "spec": {
            "serviceAccountName": names.proxy(group.name),
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": PRE_STOP_SECONDS + drain + GRACE_MARGIN_SECONDS,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "topologySpreadConstraints": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "maxSkew": 1,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": build_selector(group, labels.PROXY)},
                }
            ],
            "containers": [_build_container(group, image, pull_policy)],
            **({"volumes": volumes} if volumes else {}),
        },
    }
    owned = _owned(group, base)
    return merge_template(base, group.spec.proxy.template, owned, "spec.proxy.template", labels.PROXY_CONTAINER)


def _build_container(group: Group, image: str, pull_policy: str) -> dict[str, Any]:
    resources = group.spec.proxy.resources.model_dump()
    mounts = [build_mount(mounted) for mounted in find_mounted(group.spec.proxy)]
    return {
        "name": labels.PROXY_CONTAINER,
        "image": image,
        "imagePullPolicy": pull_policy,
        "args": build_args(group),
        "ports": [
            {"name": group.scheme, "containerPort": labels.PROXY_PORT},
            {"name": "admin", "containerPort": labels.PROXY_ADMIN_PORT},
        ],
        "resources": {name: quantities for name, quantities in resources.items() if quantities},
        "readinessProbe": _probe("/ready", period=2, failures=5),
        "livenessProbe": _probe("/health", period=10, failures=6),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **({"volumeMounts": mounts} if mounts else {}),
    }


def build_args(group: Group) -> list[str]:
    """The command line of `pdserving proxy`; times are seconds."""
    proxy = group.spec.proxy
    return [
        "proxy",
        f"--listen=0.0.0.0:{labels.PROXY_PORT}",
        f"--admin=0.0.0.0:{labels.PROXY_ADMIN_PORT}",
        f"--group={group.name}",
        f"--namespace={group.namespace}",
        f"--on-prefill-failure={proxy.on_prefill_failure}",
        f"--max-retries={proxy.max_retries}",
        f"--prefill-timeout={proxy.timeouts.prefill_seconds}",
        f"--first-byte-timeout={proxy.timeouts.first_byte_seconds}",
        f"--idle-timeout={proxy.timeouts.idle_seconds}",
        f"--request-timeout={proxy.timeouts.request_seconds}",
        f"--drain-timeout={proxy.timeouts.drain_seconds}",
        f"--max-in-flight={proxy.limits.max_in_flight}",
        f"--max-body-bytes={proxy.limits.max_body_bytes}",
        f"--max-local-prefills={proxy.limits.max_local_prefills}",
        f"--local-prefill-below-tokens={proxy.dispatch.local_prefill_below_tokens}",
        f"--verify-interval={group.verify_interval}",
        f"--log-format={proxy.log_format}",
        *(["--access-log"] if proxy.access_log else []),
        *(option for mounted in find_mounted(proxy) for option in build_options(mounted)),
    ]


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "admin"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _owned(group: Group, base: dict[str, Any]) -> list[Owned]:
    mounted = find_mounted(group.spec.proxy)
    return [
        *(Owned(("spec", "volumes", f"name={each.volume}"), f"use spec.proxy.{each.field}") for each in mounted),
        *(Owned((*PROXY, "volumeMounts", f"mountPath={each.folder}"), "remove it") for each in mounted),
        *(Owned(("metadata", "labels", key), "remove it") for key in base["metadata"]["labels"]),
        Owned((*PROXY, "image"), "use spec.proxy.image"),
        Owned((*PROXY, "imagePullPolicy"), "use spec.proxy.imagePullPolicy"),
        Owned((*PROXY, "args"), "use the fields of spec.proxy and spec.verification"),
        Owned((*PROXY, "ports", f"name={group.scheme}"), "use spec.proxy.service.port"),
        Owned((*PROXY, "ports", "name=admin"), "remove it"),
        Owned((*PROXY, "lifecycle", "preStop"), "remove it: it keeps requests away from a proxy that stops"),
        Owned(("spec", "serviceAccountName"), "remove it: the account lets the proxy watch the group's pods"),
        Owned(("spec", "terminationGracePeriodSeconds"), "use spec.proxy.timeouts.drainSeconds"),
        Owned(("spec", "hostNetwork"), "remove it: use spec.proxy.service"),
        Owned(("spec", "restartPolicy"), "remove it"),
    ]
