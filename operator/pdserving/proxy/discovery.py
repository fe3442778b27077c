"""Where engines come from: named on the command line, or seen as pods of the group.

Both only call `Pool.update`. Proxies watch pods themselves, so serving goes on while the operator is down.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pdserving.api import labels
from pdserving.kube.podwatch import watch_pods
from pdserving.proxy.config import Config
from pdserving.proxy.http.fetch import FetchError, fetch
from pdserving.proxy.pool import Pool, Sighting

STATIC_LANE = "static"


def parse_engine(url: str, role: str, bootstrap_port: int) -> Sighting:
    """``http://host:port`` of an engine; raises `ValueError` with the remedy."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(f"{url!r} is no engine address: write http://HOST:PORT")
    port = parts.port or labels.ENGINE_PORT
    name = f"{parts.hostname}:{port}"
    return Sighting(
        role=role, pod=name, uid=name, host=parts.hostname, port=port, lane=STATIC_LANE,
        ready=role == labels.PREFILL, bootstrap_port=bootstrap_port,
    )  # fmt: skip


class StaticDiscovery:
    """A fixed list. A prefill engine is ready when its bootstrap server answers, a decode engine when it is healthy."""

    def __init__(self, pool: Pool, config: Config, engines: Sequence[Sighting]) -> None:
        self._pool, self._interval = pool, config.query_interval
        self._engines = engines
        self._ready = {engine.identity: engine.ready for engine in engines}

    async def run(self) -> None:
        self._publish()
        decodes = [engine.seen.identity for engine in self._pool.decodes]
        await asyncio.gather(asyncio.Event().wait(), *map(self._check_forever, decodes))

    async def _check_forever(self, identity: tuple[str, str, str, str, int]) -> None:
        endpoint = self._pool.engines[identity].endpoint
        while True:
            try:
                await fetch(endpoint, b"/health", timeout=self._interval)
                ready = True
            except FetchError as error:
                ready = self._ready[identity] and not error.refused
            if ready != self._ready[identity]:
                self._ready[identity] = ready
                self._publish()
            await asyncio.sleep(self._interval if ready else self._interval / 8)

    def _publish(self) -> None:
        self._pool.update(_with_ready(engine, ready=self._ready[engine.identity]) for engine in self._engines)


def _with_ready(engine: Sighting, *, ready: bool) -> Sighting:
    return Sighting(
        role=engine.role, pod=engine.pod, uid=engine.uid, host=engine.host, port=engine.port, lane=engine.lane,
        ready=ready, bootstrap_port=engine.bootstrap_port,
    )  # fmt: skip


class PodDiscovery:
    """The engine pods of one group."""

    def __init__(self, pool: Pool, group: str, namespace: str) -> None:
        self._pool, self._namespace = pool, namespace
        roles = f"{labels.ROLE_LABEL} in ({labels.PREFILL},{labels.DECODE})"
        self._selector = f"{labels.GROUP_LABEL}={group},{roles}"

    async def run(self) -> None:
        await watch_pods(self._namespace, self._selector, self._publish)

    def _publish(self, pods: Iterable[Mapping[str, Any]]) -> None:
        self._pool.update(sighting for pod in pods if (sighting := parse_pod(pod)) is not None)


def parse_pod(pod: Mapping[str, Any]) -> Sighting | None:
    """An engine pod with an address; None while it has none, or for one that has ended."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    marks = metadata.get("labels") or {}
    address = status.get("podIP")
    if not address or status.get("phase") in {"Succeeded", "Failed"} or labels.ROLE_LABEL not in marks:
        return None
    engine = _find(status.get("containerStatuses"), labels.ENGINE_CONTAINER)
    return Sighting(
        role=marks[labels.ROLE_LABEL],
        pod=metadata["name"],
        uid=metadata["uid"],
        host=address,
        port=_engine_port(pod),
        lane=marks.get(labels.LANE_LABEL, ""),
        ready=_is_ready(status) and "deletionTimestamp" not in metadata,
        incarnation=f"{engine.get('restartCount', 0)}/{engine.get('containerID', '')}",
        ranks=parse_ranks((metadata.get("annotations") or {}).get(labels.RANKS)),
    )


def parse_ranks(text: str | None) -> tuple[int, int, int] | None:
    """``<data>x<tensor>x<pipeline>``; None if absent or not of that form."""
    parts = (text or "").split("x")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])


def _is_ready(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or []
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def _find(items: Sequence[Mapping[str, Any]] | None, name: str) -> Mapping[str, Any]:
    return next((item for item in items or [] if item.get("name") == name), {})


def _engine_port(pod: Mapping[str, Any]) -> int:
    container = _find(pod["spec"].get("containers"), labels.ENGINE_CONTAINER)
    port = _find(container.get("ports"), "http").get("containerPort", labels.ENGINE_PORT)
    return int(port)
