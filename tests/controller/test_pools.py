"""Asking proxies, of which some are slow, broken or away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pdserving.controller import pools
from pdserving.controller.pools import PoolReader

Answer = Callable[[web.Request], Any]


def make_pod(name: str = "proxy-1", *, phase: str = "Running", role: str = "proxy", **metadata: Any) -> dict[str, Any]:
    """Not ready: that is no reason not to ask."""
    return {
        "metadata": {"name": name, "labels": {"pdserving.dev/role": role}, **metadata},
        "status": {"phase": phase, "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "False"}]},
    }


class Proxy:
    """A proxy's admin port that answers as a test wants."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: Answer = lambda _: web.json_response({"ready": True})

    async def debug_pool(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        answer = self.answer(request)
        return await answer if asyncio.iscoroutine(answer) else answer


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


@pytest.fixture
async def reader(proxy: Proxy) -> AsyncIterator[PoolReader]:
    app = web.Application()
    app.router.add_get("/debug/pool", proxy.debug_pool)
    async with TestServer(app, host="127.0.0.1") as server, aiohttp.ClientSession() as session:
        yield PoolReader(session, port=server.port or 0)


async def test_proxies_are_asked_in_the_order_of_their_names(reader: PoolReader, proxy: Proxy) -> None:
    assert await reader.read([make_pod("b"), make_pod("a")]) == ({"ready": True}, {"ready": True})
    assert proxy.asked == 2


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(phase="Failed"),
        make_pod(role="prefill"),
        make_pod(deletionTimestamp="2026-12-01T03:00:00Z"),
        {"metadata": {"name": "new"}},
    ],
)
async def test_pod_that_is_no_running_proxy_is_not_asked(reader: PoolReader, proxy: Proxy, pod: dict[str, Any]) -> None:
    assert await reader.read([pod]) == ()
    assert proxy.asked == 0


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: web.Response(status=500),
        lambda _: web.Response(text="{", content_type="application/json"),
        lambda _: web.json_response(["no", "object"]),
        lambda _: web.Response(text="plain"),
    ],
)
async def test_odd_answer_counts_as_none(reader: PoolReader, proxy: Proxy, answer: Answer) -> None:
    proxy.answer = answer
    assert await reader.read([make_pod()]) == ()


async def test_slow_proxy_is_not_waited_for(reader: PoolReader, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "DEADLINE", 0.05)

    async def sleepy(_: web.Request) -> web.Response:
        await asyncio.sleep(1)
        return web.json_response({})

    proxy.answer = sleepy
    assert await reader.read([make_pod()]) == ()


async def test_proxy_that_is_away_is_no_error() -> None:
    async with aiohttp.ClientSession() as session:
        assert await PoolReader(session, port=1).read([make_pod()]) == ()
