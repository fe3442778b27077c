"""A cluster as far as the planner can tell: it applies plans, fills in defaults as the API server does, and runs pods.

Server-side apply is imitated for what matters here: our fields replace those that we set before, and a field that
somebody else owns (replicas, when we leave it out) stays.
"""

import copy
from collections.abc import Mapping
from typing import Any

from pdserving.core.observed import Observed
from pdserving.core.plan import ObjectRef, Plan

Manifest = dict[str, Any]


class FakeCluster:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.pods: list[Manifest] = []
        self.events: list[Manifest] = []
        self.version = 0
        self.pairs: dict[str, Any] = {"state": "verified", "reason": "Verified", "message": "", "age": 1}
        """What canaries showed of every pair of engines."""
        self.broken_lanes: set[str] = set()
        """Lanes whose engines never become ready."""

    def apply(self, plan: Plan) -> None:
        for desired in plan.apply:
            self._apply(desired)
        for ref in plan.delete:
            self._delete(ref)

    def _apply(self, desired: Manifest) -> None:
        key = (desired["kind"], desired["metadata"]["name"])
        live, new = self.objects.get(key), copy.deepcopy(desired)
        self.version += 1
        metadata = new["metadata"]
        metadata["uid"] = live["metadata"]["uid"] if live else f"uid-{self.version}"
        metadata["creationTimestamp"] = live["metadata"]["creationTimestamp"] if live else f"t{self.version:04}"
        metadata["resourceVersion"] = str(self.version)
        if new["kind"] in ("StatefulSet", "Deployment"):
            owned_before = live is not None and live["spec"].get("replicas")
            new["spec"].setdefault("replicas", owned_before if live and live.get("scaled") else 1)
        same = live is not None and live.get("spec") == new.get("spec")
        metadata["generation"] = live["metadata"]["generation"] + (not same) if live else 1
        new["status"] = live.get("status", {}) if live else {}
        self.objects[key] = _with_server_defaults(new)

    def _delete(self, ref: ObjectRef) -> None:
        live = self.objects[ref.kind, ref.name]
        assert (live["metadata"]["uid"], live["metadata"]["resourceVersion"]) == (ref.uid, ref.resource_version)
        del self.objects[ref.kind, ref.name]

    def run(self) -> None:
        """Let the workload controllers and kubelets finish: as many ready pods as are wanted, none in broken lanes."""
        self.pods = [pod for live in self._workloads() for pod in _make_pods(live, ready=self._works(live))]
        for live in self._workloads():
            wanted = live["spec"]["replicas"]
            live["status"] = {
                "observedGeneration": live["metadata"]["generation"],
                "replicas": wanted,
                "readyReplicas": wanted if self._works(live) else 0,
                "updatedReplicas": wanted,
            }

    def _works(self, live: Manifest) -> bool:
        return live["metadata"]["labels"].get("pdserving.dev/lane") not in self.broken_lanes

    def _workloads(self) -> list[Manifest]:
        return [live for (kind, _), live in self.objects.items() if kind in ("StatefulSet", "Deployment")]

    def observe(self) -> Observed:
        prefill, decode = (
            [pod for pod in self.pods if pod["metadata"]["labels"]["pdserving.dev/role"] == role]
            for role in ("prefill", "decode")
        )
        pool = {
            "ready": True,
            "prefill": [
                {
                    "pod": pod["metadata"]["name"],
                    "uid": pod["metadata"]["uid"],
                    "engine_ids": {"0": "id"},
                    "missing_ranks": [],
                    "bootstrap_error": None,
                }
                for pod in prefill
            ],
            "pairs": [
                make_pair(p["metadata"]["name"], d["metadata"]["name"], **self.pairs) for p in prefill for d in decode
            ],
        }
        return Observed(
            objects=tuple(copy.deepcopy(list(self.objects.values()))),
            pods=tuple(copy.deepcopy(self.pods)),
            events=tuple(self.events),
            pools=(pool,) if ("Deployment", "llm-proxy") in self.objects else (),
        )

    def lanes(self) -> set[str]:
        sets = [live for (kind, _), live in self.objects.items() if kind == "StatefulSet"]
        return {live["metadata"]["labels"]["pdserving.dev/lane"] for live in sets}


def make_pair(prefill: str, decode: str, **said: Any) -> Manifest:
    """What a proxy says of two pods."""
    pods = {"prefill": prefill, "prefill_uid": f"{prefill}-uid", "decode": decode, "decode_uid": f"{decode}-uid"}
    return {**pods, "state": "verified", "reason": "Verified", "message": "", "age": 1, **said}


def _make_pods(live: Mapping[str, Any], *, ready: bool) -> list[Manifest]:
    labels = live["spec"]["template"]["metadata"]["labels"]
    status = {
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": str(ready)}],
        "containerStatuses": [],
    }
    names = [f"{live['metadata']['name']}-{index}" for index in range(live["spec"]["replicas"])]
    return [
        {"kind": "Pod", "metadata": {"name": name, "uid": f"{name}-uid", "labels": labels}, "status": status}
        for name in names
    ]


def _with_server_defaults(live: Manifest) -> Manifest:
    """Some of what a real API server adds or rewrites, one of each sort."""
    spec = live.get("spec", {})
    if live["kind"] == "Service":
        for port in spec["ports"]:
            port.setdefault("protocol", "TCP")
        spec.setdefault("sessionAffinity", "None")
    pod = spec.get("template", {}).get("spec")
    if pod:
        pod.setdefault("dnsPolicy", "ClusterFirst")
        for container in pod["containers"]:
            container.setdefault("terminationMessagePath", "/dev/termination-log")
            for kind, quantities in container.get("resources", {}).items():
                if kind != "claims":
                    quantities |= {name: "1" for name, value in quantities.items() if value == "1000m"}
            container.setdefault("resources", {})
            for variable in container.get("env", ()):
                if "fieldRef" in variable.get("valueFrom", {}):
                    variable["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")
    return live
