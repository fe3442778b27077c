"""Probes and metrics over HTTP."""

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from e2e.cluster.control_plane import free_ports
from pdserving.controller.cache import Cache
from pdserving.controller.metrics import Metrics
from pdserving.controller.server import Health, serve
from pdserving.kube.kinds import GROUPS
from tests.support.harness import make_group


async def ask(health: Health, path: str, metrics: Metrics | None = None) -> tuple[int, str]:
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    known = metrics or Metrics(CollectorRegistry())
    async with (
        serve(listen, health, known, lambda: None),
        aiohttp.ClientSession() as session,
        session.get(f"http://{listen}{path}") as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize(("leading", "synced", "status"), [(False, False, 200), (True, False, 503), (True, True, 200)])
async def test_standby_is_ready_and_a_leader_once_its_cache_is_full(leading: bool, synced: bool, status: int) -> None:
    assert (await ask(Health(leading=leading, synced=synced), "/readyz"))[0] == status


@pytest.mark.parametrize(("seconds", "status"), [(0, 200), (299, 200), (301, 503)])
async def test_endless_look_is_not_alive(seconds: float, status: int) -> None:
    assert (await ask(Health(longest_look=lambda: seconds), "/healthz"))[0] == status


async def test_conditions_of_groups_are_metrics_and_go_with_the_group() -> None:
    metrics, cache = Metrics(CollectorRegistry()), Cache()
    metrics.show_groups(cache)
    group = {**make_group(), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    group["metadata"]["resourceVersion"] = "1"
    cache.put(GROUPS, group)
    line = 'pdserving_group_condition{condition="Ready",group="llm",namespace="serving",status="True"} 1.0'
    assert line in (await ask(Health(), "/metrics", metrics))[1]
    cache.remove(GROUPS, group)
    assert line not in (await ask(Health(), "/metrics", metrics))[1]
