"""A reconciler on a cluster in memory: everything but kopf and the network."""

from datetime import UTC, datetime
from typing import Any

from pdserving.controller.audit import Audit
from pdserving.controller.cache import Cache, Key
from pdserving.controller.observer import Observer
from pdserving.controller.reconciler import Reconciler, Result
from pdserving.core.actions import Defaults
from pdserving.kube.events import Recorder
from pdserving.kube.kinds import EVENTS, GROUPS, Kind
from tests.support.fake_cluster import FakeCluster

NOW = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)
DEFAULTS = Defaults(proxy_image="registry.example/pdserving:1", engine_image="registry.example/vllm:1")
KEY = Key("serving", "llm")


class NoPools:
    """Proxies that cannot be asked."""

    def __init__(self) -> None:
        self.answers: tuple[dict[str, Any], ...] = ()

    async def read(self, pods: Any) -> tuple[dict[str, Any], ...]:
        return self.answers


class Harness:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cache = Cache()
        self.pools = NoPools()
        self.seconds = 0.0
        self.observer = Observer(self.cluster, self.cache, self.pools, clock=lambda: self.seconds)  # type: ignore[arg-type]
        self.reconciler = Reconciler(
            self.cluster,
            self.cache,
            self.observer,
            Recorder(self.cluster, now=lambda: NOW),
            defaults=DEFAULTS,
            now=lambda: NOW,
        )
        self.cluster.watcher = self.feed
        self.audit = Audit(self.cluster, self.cache, namespaces=(), period=600, on_changed=lambda _: None)

    def feed(self, happened: str, kind: Kind, manifest: dict[str, Any]) -> None:
        """What a watch would deliver; set `cluster.watcher` to something else to break the watch."""
        if kind == EVENTS:
            return
        (self.cache.remove if happened == "DELETED" else self.cache.put)(kind, manifest)

    async def reconcile(self) -> Result:
        return await self.reconciler.reconcile(KEY)

    async def settle(self, limit: int = 10) -> None:
        """Reconcile until nothing changes any more, as the queue would."""
        for _ in range(limit):
            if (await self.reconcile()).outcome == "settled":
                return
        raise AssertionError(f"not settled after {limit} looks: {self.cluster.writes[-10:]}")

    def group(self) -> dict[str, Any]:
        return self.cluster.objects[GROUPS.plural, KEY.namespace, KEY.name]

    def condition(self, kind: str) -> dict[str, Any]:
        return next(c for c in self.group()["status"]["conditions"] if c["type"] == kind)

    def events(self) -> list[str]:
        events = [m for (plural, *_), m in self.cluster.objects.items() if plural == EVENTS.plural]
        return [f"{event['type']} {event['reason']}" for event in events]


def make_group(**spec: Any) -> dict[str, Any]:
    base = {
        "model": {"source": {"inImage": {"path": "/model"}}},
        "transfer": {"protocol": "tcp"},
        "prefill": {"replicas": 1},
        "decode": {"replicas": 1},
    }
    return {
        "apiVersion": GROUPS.api_version,
        "kind": GROUPS.kind,
        "metadata": {"name": KEY.name, "namespace": KEY.namespace, "uid": "group-uid", "generation": 1},
        "spec": {**base, **spec},
    }
