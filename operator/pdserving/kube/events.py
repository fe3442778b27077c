"""Events on a group: equal ones are counted, not repeated.

An event's name is the hash of what it says, so that saying it again is one server-side apply that raises a count: the
API server holds one object for each thing that happened, and a crash loop of ours costs it nothing more.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pdserving.api.labels import MANAGER
from pdserving.core.actions import Event
from pdserving.kube.client import Kube, Manifest
from pdserving.kube.kinds import EVENTS

REMEMBERED: Final = 1024
"""Events whose count is known; forgetting one starts its count again."""
MAX_MESSAGE: Final = 1024
"""The API server's limit."""


@dataclass(frozen=True, slots=True)
class _Said:
    count: int
    first: str


class Recorder:
    def __init__(self, client: Kube, *, now: Callable[[], datetime], instance: str = "") -> None:
        self._client = client
        self._now = now
        self._instance = instance
        self._said: OrderedDict[str, _Said] = OrderedDict()

    async def record(self, about: Mapping[str, Any], event: Event) -> None:
        """Raises `KubeError`."""
        name = _name(about, event)
        at = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        before = self._said.get(name)
        said = _Said(before.count + 1, before.first) if before else _Said(1, at)
        await self._client.apply(self._build(about, event, name, said, at))
        self._said[name] = said
        self._said.move_to_end(name)
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)

    def _build(self, about: Mapping[str, Any], event: Event, name: str, said: _Said, at: str) -> Manifest:
        metadata = about["metadata"]
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:MAX_MESSAGE],
            "count": said.count,
            "firstTimestamp": said.first,
            "lastTimestamp": at,
            "source": {"component": MANAGER},
            "reportingComponent": MANAGER,
            "reportingInstance": self._instance,
        }


def _name(about: Mapping[str, Any], event: Event) -> str:
    said = "\0".join((about["metadata"]["uid"], event.type, event.reason, event.message))
    return f"{about['metadata']['name']}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"
