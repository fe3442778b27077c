"""Why we wake up: every event goes into the cache, and the groups that it changes something for into the queue.

Handlers do nothing else. kopf logs an error of theirs and never repeats it, so they must not have any.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import kopf

from pdserving.controller.audit import Audit
from pdserving.controller.cache import Cache, Key
from pdserving.controller.settings import select
from pdserving.controller.workqueue import WorkQueue
from pdserving.kube.auth import Connection
from pdserving.kube.kinds import GROUPS, WATCHED, Kind

CLUSTER_CHANGE_DELAY: Final = 0.1
"""Seconds: a change of one child rarely comes alone."""
OnEvent = Callable[[str, str], None]
Connect = Callable[[], Awaitable[Connection]]


def build_registry(
    cache: Cache, queue: WorkQueue[Key], audit: Audit, connect: Connect, on_event: OnEvent
) -> kopf.OperatorRegistry:
    """Explicit, so that importing registers nothing and two operators fit in one process."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        """Asked again whenever the API server no longer takes the token, so it is read anew each time."""
        connection = await connect()
        return kopf.ConnectionInfo(
            server=connection.server,
            ca_path=connection.ca_path,
            insecure=connection.insecure,
            certificate_path=connection.certificate_path,
            private_key_path=connection.key_path,
            token=connection.token,
        )

    for kind in WATCHED:
        _watch(registry, kind, cache, queue, audit, on_event)
    return registry


def _watch(
    registry: kopf.OperatorRegistry,
    kind: Kind,
    cache: Cache,
    queue: WorkQueue[Key],
    audit: Audit,
    on_event: OnEvent,
) -> None:
    delay = 0.0 if kind == GROUPS else CLUSTER_CHANGE_DELAY

    @kopf.on.event(*select(kind), registry=registry, id=kind.plural)
    async def take_in(**given: Any) -> None:
        happened, manifest = given["event"]["type"], given["event"]["object"]
        on_event(kind.kind, happened or "LISTED")
        if happened is None:
            audit.suspect()
        changed = cache.remove(kind, manifest) if happened == "DELETED" else cache.put(kind, manifest)
        for key in changed:
            queue.add(key, delay)
