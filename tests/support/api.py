"""Requests of a user beside the operator, and waiting for a condition with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pdserving.kube.client import KubeClient
from pdserving.kube.errors import NotFoundError, UnreachableError
from pdserving.kube.kinds import GROUPS, OWNED, PODS, Kind, kind_of

Manifest = dict[str, Any]
T = TypeVar("T")
NAMESPACES = Kind("v1", "Namespace", "namespaces")


READY: Manifest = {
    "status": {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")],
    }
}
"""What a kubelet, which the api tier lacks, would say of a pod that serves."""


class Api:
    """An administrator's requests in one namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    async def create_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await self._client.request("create", NAMESPACES, NAMESPACES.path(), body)

    async def answers(self) -> bool:
        """Whether the API server is reachable; connections from before its restart are used up by asking."""
        try:
            await self.find(GROUPS)
        except UnreachableError:
            return False
        return True

    async def create(self, manifest: Manifest) -> Manifest:
        kind = kind_of(manifest)
        return await self._client.request("create", kind, kind.path(self.namespace), manifest)

    async def patch(self, kind: Kind, name: str, patch: Manifest, subresource: str = "") -> Manifest:
        """A merge patch by the manager `someone`."""
        path = kind.path(self.namespace, name, subresource)
        return await self._client.request("patch", kind, path, patch, query={"fieldManager": "someone"})

    async def delete(self, kind: Kind, name: str) -> None:
        await self._client.request("delete", kind, kind.path(self.namespace, name), {})

    async def get(self, kind: Kind, name: str) -> Manifest | None:
        try:
            return await self._client.request("get", kind, kind.path(self.namespace, name))
        except NotFoundError:
            return None

    async def find(self, kind: Kind, labels: str = "") -> list[Manifest]:
        return list((await self._client.list(kind, self.namespace, labels=labels)).items)

    async def owned(self, group: str) -> list[Manifest]:
        return [m for kind in OWNED for m in await self.find(kind, f"pdserving.dev/group={group}")]

    async def make_pods_ready(self) -> None:
        """Those that there are now, in the kubelet's place."""
        for pod in await self.find(PODS):
            await self.patch(PODS, pod["metadata"]["name"], READY, "status")

    async def condition(self, group: str, kind: str) -> Manifest:
        manifest = await self.get(GROUPS, group) or {}
        found: list[Manifest] = manifest.get("status", {}).get("conditions", [])
        return next((condition for condition in found if condition["type"] == kind), {})


async def eventually(what: str, check: Callable[[], Awaitable[T]], within: float = 60) -> T:
    """Ask until the answer is true; the answer."""
    deadline = time.monotonic() + within
    while not (answer := await check()):
        assert time.monotonic() < deadline, f"not within {within:.0f} s: {what}; last answer: {answer!r}"
        await asyncio.sleep(0.2)
    return answer


def make_group(name: str = "llm", **spec: Any) -> Manifest:
    base: Manifest = {
        "model": {"source": {"inImage": {"path": "/model"}}},
        "engine": {"image": "registry.example/vllm:1"},
        "transfer": {"protocol": "tcp"},
        "prefill": {"replicas": 1},
        "decode": {"replicas": 1},
    }
    return {
        "apiVersion": GROUPS.api_version,
        "kind": GROUPS.kind,
        "metadata": {"name": name},
        "spec": {**base, **spec},
    }
