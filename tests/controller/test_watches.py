"""kopf as an informer: what it is told not to do, and what an event of it leads to."""

from itertools import islice
from typing import Any

import kopf

from pdserving.controller.cache import Cache, Key
from pdserving.controller.settings import EndlessBackoffs, build_settings
from pdserving.controller.watches import build_registry
from pdserving.controller.workqueue import WorkQueue
from pdserving.kube.auth import Connection
from pdserving.kube.kinds import GROUPS, OWNED, PODS, WATCHED
from tests.support.harness import KEY, make_group


class Credentials:
    """A service account's token, which the kubelet replaces from time to time."""

    def __init__(self) -> None:
        self.token = "first"

    async def connect(self) -> Connection:
        return Connection("https://api", None, None, None, self.token, insecure=False)


class Suspicion:
    def __init__(self) -> None:
        self.count = 0

    def suspect(self) -> None:
        self.count += 1


def make_queue() -> WorkQueue[Key]:
    return WorkQueue(clock=lambda: 0.0)


def make_registry(cache: Cache, queue: WorkQueue[Key], audit: Any) -> kopf.OperatorRegistry:
    return build_registry(cache, queue, audit, Credentials().connect, lambda *_: None)


def find_handler(registry: kopf.OperatorRegistry, name: str) -> Any:
    return next(handler.fn for handler in registry._watching.get_all_handlers() if handler.id == name)


def test_every_owned_kind_is_filtered_by_the_api_server() -> None:
    selectors = {str(selector) for selector in build_settings().watching.label_selectors}
    assert len(selectors) == len(OWNED) + 1
    assert all(any(kind.plural in selector for selector in selectors) for kind in (*OWNED, PODS))


def test_nothing_of_kopf_writes() -> None:
    settings = build_settings()
    assert settings.scanning.disabled
    assert settings.peering.standalone
    assert not settings.posting.enabled


def test_backoffs_have_no_end_and_no_great_gaps() -> None:
    delays = list(islice(EndlessBackoffs(), 1000))
    assert max(delays) < 20
    assert delays != list(islice(EndlessBackoffs(), 1000)), "jittered"


def test_only_event_handlers_are_registered() -> None:
    registry = make_registry(Cache(), make_queue(), Suspicion())
    assert len(registry._watching.get_all_handlers()) == len(WATCHED)
    for other in (registry._changing, registry._spawning, registry._indexing, registry._webhooks):
        assert other.get_all_handlers() == []


async def test_event_fills_the_cache_and_wakes_the_group() -> None:
    cache, queue, suspicion = Cache(), make_queue(), Suspicion()
    handler = find_handler(make_registry(cache, queue, suspicion), GROUPS.plural)
    group = make_group()
    group["metadata"]["resourceVersion"] = "5"
    await handler(event={"type": "ADDED", "object": group})
    assert cache.group(KEY) is not None
    assert await queue.get() == KEY
    assert suspicion.count == 0
    await handler(event={"type": "DELETED", "object": group})
    assert cache.group(KEY) is None


async def test_listed_object_makes_the_cache_suspect() -> None:
    suspicion = Suspicion()
    handler = find_handler(make_registry(Cache(), make_queue(), suspicion), GROUPS.plural)
    group = make_group()
    group["metadata"]["resourceVersion"] = "5"
    await handler(event={"type": None, "object": group})
    assert suspicion.count == 1


async def test_login_reads_the_token_of_today() -> None:
    credentials = Credentials()
    registry = build_registry(Cache(), make_queue(), Suspicion(), credentials.connect, lambda *_: None)  # type: ignore[arg-type]
    (login,) = registry._activities.get_all_handlers()
    assert (await login.fn()).token == "first"
    credentials.token = "second"
    assert (await login.fn()).token == "second"
