"""Observe a group: cached objects and pods, and what else the core needs to explain why something is not ready.

Events, logs and pools explain; they never decide whether to act. If one can't be had, the group is judged without it.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pdserving.api.labels import ENGINE_CONTAINER
from pdserving.controller.cache import Cache, Key
from pdserving.controller.pools import PoolReader
from pdserving.core.observed import Observed
from pdserving.core.plan import needs
from pdserving.kube.client import Kube
from pdserving.kube.errors import KubeError
from pdserving.kube.kinds import EVENTS

log = logging.getLogger(__name__)

Manifest = Mapping[str, Any]
EVENTS_AGE: Final = 3.0
"""Seconds for which a namespace's events serve all its groups: many that start together ask once."""
LOG_LINES: Final = 200
"""A traceback of vLLM's engine core and the cause above it."""
REMEMBERED_LOGS: Final = 256


class Observer:
    def __init__(self, client: Kube, cache: Cache, pools: PoolReader, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._cache = cache
        self._pools = pools
        self._clock = clock
        self._events: dict[str, tuple[float, tuple[Manifest, ...]]] = {}
        self._logs: OrderedDict[tuple[str, int, bool], str] = OrderedDict()

    async def observe(self, key: Key, group: Manifest) -> Observed:
        observed = Observed(
            objects=self._cache.owned(key, group["metadata"]["uid"]),
            pods=self._cache.pods(key),
        )
        if not observed.objects:
            return observed  # nothing is there yet that anything could be said of
        wanted = needs(group, observed)
        pods = {pod["metadata"]["name"]: pod for pod in observed.pods}
        return replace(
            observed,
            events=await self._read_events(key, observed) if wanted.events else (),
            logs={name: await self._read_log(pods[name]) for name in wanted.logs if name in pods},
            pools=await self._pools.read(observed.pods) if wanted.pools else (),
        )

    async def _read_events(self, key: Key, observed: Observed) -> tuple[Manifest, ...]:
        """Warnings about these objects and pods."""
        about = {(m["kind"], m["metadata"]["name"]) for m in (*observed.objects, *observed.pods)}
        warnings = await self._read_warnings(key.namespace)
        return tuple(event for event in warnings if _find_subject(event) in about)

    async def _read_warnings(self, namespace: str) -> tuple[Manifest, ...]:
        asked, known = self._events.get(namespace, (float("-inf"), ()))
        if self._clock() - asked < EVENTS_AGE:
            return known
        self._events[namespace] = (self._clock(), known)
        try:
            listing = await self._client.list(EVENTS, namespace, fields="type=Warning")
        except KubeError as error:
            log.warning("could not list events", extra={"fields": {"namespace": namespace, "error": error.message}})
            return known
        self._events[namespace] = (self._clock(), listing.items)
        return listing.items

    async def _read_log(self, pod: Manifest) -> str:
        """The log of the engine's last end, read once for each end."""
        metadata, engine = pod["metadata"], _engine_status(pod)
        previous = "terminated" not in (engine.get("state") or {})
        end = (metadata["uid"], int(engine.get("restartCount") or 0), previous)
        if end not in self._logs:
            try:
                self._logs[end] = await self._client.read_log(
                    metadata["namespace"], metadata["name"], ENGINE_CONTAINER, previous=previous, lines=LOG_LINES
                )
            except KubeError as error:
                log.warning("could not read a log", extra={"fields": {"pod": metadata["name"], "error": error.message}})
                return ""
            if len(self._logs) > REMEMBERED_LOGS:
                self._logs.popitem(last=False)
        return self._logs[end]


def _find_subject(event: Manifest) -> tuple[str, str]:
    subject = event.get("involvedObject") or {}
    return str(subject.get("kind")), str(subject.get("name"))


def _engine_status(pod: Manifest) -> Manifest:
    statuses: list[Manifest] = (pod.get("status") or {}).get("containerStatuses") or []
    return next((status for status in statuses if status.get("name") == ENGINE_CONTAINER), {})
