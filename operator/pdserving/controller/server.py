"""/healthz, /readyz and /metrics."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from pdserving.controller.metrics import Metrics

STUCK: Final = 300.0
"""Seconds of one look after which the process is taken for stuck: far above the deadline of a look."""


@dataclass(slots=True)
class Health:
    leading: bool = False
    synced: bool = False
    longest_look: Callable[[], float] = lambda: 0.0

    @property
    def alive(self) -> bool:
        return self.longest_look() < STUCK

    @property
    def ready(self) -> bool:
        """A standby is ready: it does what it is there for, and `helm --wait` must not wait for it to lead."""
        return self.synced or not self.leading


@asynccontextmanager
async def serve(listen: str, health: Health, metrics: Metrics, refresh: Callable[[], None]) -> AsyncIterator[None]:
    """Listen on `host:port`; `refresh` is called before metrics are shown."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok" if health.alive else "stuck", status=200 if health.alive else 503)

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok" if health.ready else "filling the cache", status=200 if health.ready else 503)

    async def show_metrics(_: web.Request) -> web.Response:
        refresh()
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes(
        [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", show_metrics)],
    )
    # kopf waits at its end for tasks younger than itself: an idle connection must not hold it up.
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=1.0)
    await runner.setup()
    host, _, port = listen.rpartition(":")
    await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
    try:
        yield
    finally:
        await runner.cleanup()
