"""The verbs on the API server, on dicts, each with a deadline.

`Kube` is what the rest of the operator knows and what a fake implements. `KubeClient` sends it through the ApiClient of
`kubernetes.aio`, which owns authentication, TLS and the reloading of tokens.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client.api_client import ApiClient

from pdserving import __version__
from pdserving.api.labels import MANAGER
from pdserving.core.actions import ObjectRef
from pdserving.kube.auth import Connection, load_configuration, read_connection
from pdserving.kube.errors import InvalidError, KubeError, NotFoundError, UnreachableError, parse_error
from pdserving.kube.kinds import GROUPS, PODS, Kind, find_kind, kind_of

Manifest = dict[str, Any]

DEADLINE: Final = 15.0
"""Seconds for one request, reading included."""
PAGE: Final = 500
LOG_BYTES: Final = 64 * 1024
NEVER: Final = "1"
"""A resource version that no object has (etcd counts its first write as 2): the API server takes an apply that names it
as a creation, and refuses it as outdated if the object exists (watched on Kubernetes 1.36)."""


@dataclass(frozen=True, slots=True)
class Listing:
    resource_version: str
    items: tuple[Manifest, ...]


class Kube(Protocol):
    """All calls raise `KubeError` and nothing else."""

    async def list(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> Listing:
        """Objects of a namespace, or of the cluster with None; each has its apiVersion and kind."""
        ...

    async def apply(self, manifest: Manifest, *, only_new: bool = False, dry_run: bool = False) -> Manifest:
        """Server-side apply as the operator, who takes the fields in it from their owners.

        With `only_new` an object that exists is a `ConflictError`, whosever it is.
        """
        ...

    async def patch_status(self, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> Manifest:
        """Merge into the status of the group with just this uid."""
        ...

    async def delete(self, ref: ObjectRef) -> None:
        """Delete just this uid in just this version; its dependents follow in the background."""
        ...

    async def read_log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
        """Last lines of a container; empty if the kubelet has none."""
        ...


Count = Callable[[str, str, int, float], None]
"""Told of each request: verb, kind, status code (0: no answer), seconds."""


class KubeClient:
    """The real one. `request` is for the lease, the only object that needs another verb."""

    def __init__(self, api: ApiClient, on_request: Count) -> None:
        self._api = api
        self._on_request = on_request

    @classmethod
    @asynccontextmanager
    async def connect(cls, on_request: Count = lambda *_: None) -> AsyncIterator[Self]:
        async with ApiClient(await load_configuration()) as api:
            api.user_agent = f"pdserving/{__version__}"
            yield cls(api, on_request)

    async def connection(self) -> Connection:
        return await read_connection(self._api.configuration)

    async def list(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> Listing:
        items: list[Manifest] = []
        query = {"limit": str(PAGE), "labelSelector": labels, "fieldSelector": fields}
        while True:
            page = await self.request("list", kind, kind.path(namespace), query=query)
            items += ({**item, "apiVersion": kind.api_version, "kind": kind.kind} for item in page["items"])
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return Listing(page["metadata"]["resourceVersion"], tuple(items))

    async def apply(self, manifest: Manifest, *, only_new: bool = False, dry_run: bool = False) -> Manifest:
        kind, metadata = kind_of(manifest), manifest["metadata"]
        if only_new:
            manifest = {**manifest, "metadata": {**metadata, "resourceVersion": NEVER}}
        query = {"fieldManager": MANAGER, "force": "true", "dryRun": "All" if dry_run else ""}
        path = kind.path(metadata["namespace"], metadata["name"])
        return await self.request("apply", kind, path, manifest, query=query)

    async def patch_status(self, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> Manifest:
        body = {"metadata": {"uid": uid}, "status": status}
        path = GROUPS.path(namespace, name, "status")
        return await self.request("patch", GROUPS, path, body, query={"fieldManager": MANAGER})

    async def delete(self, ref: ObjectRef) -> None:
        kind = find_kind(ref.api_version, ref.kind)
        body = {
            "preconditions": {"uid": ref.uid, "resourceVersion": ref.resource_version},
            "propagationPolicy": "Background",
        }
        await self.request("delete", kind, kind.path(ref.namespace, ref.name), body)

    async def read_log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
        query = {
            "container": container,
            "previous": "true" if previous else "",
            "tailLines": str(lines),
            "limitBytes": str(LOG_BYTES),
        }
        try:
            text = await self._send("log", PODS, PODS.path(namespace, pod, "log"), None, query)
        except (NotFoundError, InvalidError):
            return ""
        return text.decode(errors="replace")

    async def request(
        self, verb: str, kind: Kind, path: str, body: Manifest | None = None, *, query: Mapping[str, str] | None = None
    ) -> Manifest:
        answer = await self._send(verb, kind, path, body, query or {})
        return dict(json.loads(answer)) if answer else {}

    async def _send(self, verb: str, kind: Kind, path: str, body: Manifest | None, query: Mapping[str, str]) -> bytes:
        started, status = time.monotonic(), 0
        try:
            async with asyncio.timeout(DEADLINE):
                status, answer = await self._exchange(verb, path, body, query)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            what = f"no answer within {DEADLINE:.0f} s" if isinstance(error, TimeoutError) else str(error)
            raise UnreachableError(f"the API server is unreachable: {what}") from error
        finally:
            self._on_request(verb, kind.kind, status, time.monotonic() - started)
        if status >= 400:
            raise parse_error(status, answer)
        return answer

    async def _exchange(
        self, verb: str, path: str, body: Manifest | None, query: Mapping[str, str]
    ) -> tuple[int, bytes]:
        method, content_type = METHODS[verb]
        asked = urlencode({key: value for key, value in query.items() if value})
        headers = {"Content-Type": content_type, "Accept": "application/json", "User-Agent": self._api.user_agent}
        if verb == "log":
            headers["Accept"] = "*/*"
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = f"{self._api.configuration.host}{path}" + (f"?{asked}" if asked else "")
        response = await self._api.rest_client.request(method, url, headers, body, _request_timeout=DEADLINE)
        return response.status, await response.read()


_JSON = "application/json"
METHODS: Final = {
    "get": ("GET", _JSON),
    "list": ("GET", _JSON),
    "log": ("GET", _JSON),
    "create": ("POST", _JSON),
    "update": ("PUT", _JSON),
    "delete": ("DELETE", _JSON),
    "patch": ("PATCH", "application/merge-patch+json"),
    # The client sends JSON, which is YAML.
    "apply": ("PATCH", "application/apply-patch+yaml"),
}

__all__ = ["Kube", "KubeClient", "KubeError", "Listing", "Manifest"]
