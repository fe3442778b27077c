"""All metrics of the operator, declared in one place. Names end in their unit."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from pdserving.controller.cache import Cache

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """Of one operator: the registry is passed in, so that tests may have several."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        ProcessCollector(registry=registry)
        self.leader = Gauge(
            "pdserving_leader", "1 while this replica holds the lease and works, 0 on standby", registry=registry
        )
        self.reconcile_seconds = Histogram(
            "pdserving_reconcile_duration_seconds", "One look at a group", buckets=BUCKETS, registry=registry
        )
        self.reconciles = Counter(
            "pdserving_reconcile", "Looks at groups: settled, changed, failed", ["result"], registry=registry
        )
        self.queue_depth = Gauge(
            "pdserving_queue_depth", "Groups that are due and wait for a worker", registry=registry
        )
        self.queue_seconds = Histogram(
            "pdserving_queue_latency_seconds", "From due to a worker", buckets=BUCKETS, registry=registry
        )
        self.api_requests = Counter(
            "pdserving_api_requests",
            "Requests to the API server, kopf's watches excluded; code 0: no answer",
            ["verb", "kind", "code"],
            registry=registry,
        )
        self.api_seconds = Histogram(
            "pdserving_api_request_duration_seconds", "One request", ["verb"], buckets=BUCKETS, registry=registry
        )
        self.watch_events = Counter(
            "pdserving_watch_events", "Events that kopf's watches delivered", ["kind", "type"], registry=registry
        )

    def count_request(self, verb: str, kind: str, code: int, seconds: float) -> None:
        self.api_requests.labels(verb, kind, str(code)).inc()
        self.api_seconds.labels(verb).observe(seconds)

    def count_event(self, kind: str, type_: str) -> None:
        self.watch_events.labels(kind, type_).inc()

    def show_groups(self, cache: Cache) -> None:
        self.registry.register(GroupConditions(cache))


class GroupConditions(Collector):
    """Conditions of all groups, read when asked: a group that is gone leaves nothing behind."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield self._family()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = self._family()
        for group in self._cache.groups():
            metadata = group["metadata"]
            for condition in (group.get("status") or {}).get("conditions") or ():
                where = [metadata["namespace"], metadata["name"], condition["type"], condition["status"]]
                family.add_metric(where, 1.0)
        yield family

    @staticmethod
    def _family() -> GaugeMetricFamily:
        labels = ["namespace", "group", "condition", "status"]
        return GaugeMetricFamily("pdserving_group_condition", "1 for the status that a condition has", labels=labels)
