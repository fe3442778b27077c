"""Starts and stops the proxy: two listeners, the timer wheel, discovery and the engine ids, in one loop."""

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pdserving.proxy.config import Config
from pdserving.proxy.deadlines import Wheel
from pdserving.proxy.discovery import PodDiscovery, StaticDiscovery
from pdserving.proxy.gateway import Gateway
from pdserving.proxy.http.edge import ClientEdge
from pdserving.proxy.memory import keep_buffers
from pdserving.proxy.pages import AdminServer
from pdserving.proxy.pool import Pool, Sighting
from pdserving.proxy.tls import SHUTDOWN_SECONDS

logger = logging.getLogger(__name__)
BACKLOG = 4096


class Discovery(Protocol):
    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Source:
    """Where engines come from: a group's pods, or a fixed list."""

    group: str = ""
    namespace: str = ""
    engines: Sequence[Sighting] = ()

    def discover(self, pool: Pool, config: Config) -> Discovery:
        if self.group:
            return PodDiscovery(pool, self.group, self.namespace)
        return StaticDiscovery(pool, config, self.engines)


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int


class App:
    """One proxy process; `start`, then `stop` or `run`."""

    def __init__(self, config: Config, source: Source, clock: Callable[[], float] | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.config = config
        self.wheel = Wheel(clock or time.monotonic)  # not loop.time: uvloop's has milliseconds
        self.pool = Pool(loop, config.connect_timeout, self.wheel.clock)
        self.gateway = Gateway(config, self.wheel, self.pool)
        self.admin = AdminServer(self.gateway)
        self._discovery = source.discover(self.pool, config)
        self._servers: list[asyncio.Server] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.ending = asyncio.Event()
        """Set by a signal, or because a part of the proxy failed."""
        self.failed = False

    async def start(self, listen: Address, admin: Address) -> tuple[Address, Address]:
        """Returns the addresses that were bound; port 0 means any."""
        loop = asyncio.get_running_loop()
        self.wheel.run(loop)
        parts = [self._discovery.run(), self.gateway.epochs.run(), self.gateway.transfers.run()]
        if self.gateway.verification is not None:
            parts.append(self.gateway.verification.run())
        self._tasks = [loop.create_task(part) for part in parts]
        for task in self._tasks:
            task.add_done_callback(self._part_ended)
        main = await self._listen(listen)
        side = await loop.create_server(lambda: ClientEdge(self.admin), admin.host, admin.port)
        self._servers = [main, side]
        return _bound(main), _bound(side)

    async def _listen(self, listen: Address) -> asyncio.Server:
        loop, certificate = asyncio.get_running_loop(), self.gateway.certificate
        return await loop.create_server(
            lambda: ClientEdge(self.gateway),
            listen.host,
            listen.port,
            backlog=BACKLOG,
            ssl=certificate.context if certificate else None,
            ssl_handshake_timeout=self.config.handshake_timeout if certificate else None,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS if certificate else None,
        )

    def _part_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            logger.critical("a part of the proxy ended", exc_info=task.exception())
            self.failed = True
            self.ending.set()

    async def stop(self) -> None:
        """Readiness goes off, no new connections; running requests have until the drain timeout."""
        gateway = self.gateway
        gateway.draining = True
        self._servers[0].close()
        for edge in list(gateway.edges):
            edge.close_if_idle()
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.config.drain_timeout
        while gateway.edges and loop.time() < ends:  # noqa: ASYNC110 - polled once in a process's life
            await asyncio.sleep(0.05)
        for edge in list(gateway.edges):
            edge.interrupt()
        await asyncio.sleep(0)
        self._shut()

    def _shut(self) -> None:
        self._servers[1].close()
        for edge in list(self.gateway.edges | self.admin.edges):
            edge.close()
        if self.gateway.access_log is not None:
            self.gateway.access_log.flush()
        self.wheel.stop()
        for task in self._tasks:
            task.remove_done_callback(self._part_ended)
            task.cancel()
        self.pool.update([])


async def run(config: Config, source: Source, listen: Address, admin: Address) -> int:
    """Serve until SIGTERM or SIGINT, then drain; returns the exit status."""
    keep_buffers()
    app, loop = App(config, source), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, app.ending.set)
    await app.start(listen, admin)
    gc.collect()
    gc.freeze()
    logger.info("proxy listens", extra={"fields": {"address": f"{listen.host}:{listen.port}"}})
    await app.ending.wait()
    logger.info("proxy drains", extra={"fields": {"in_flight": app.gateway.in_flight}})
    await app.stop()
    return int(app.failed)


def _bound(server: asyncio.Server) -> Address:
    host, port, *_ = server.sockets[0].getsockname()
    return Address(host, port)
