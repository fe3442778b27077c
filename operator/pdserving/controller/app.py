"""Start and stop: what runs, in which order, and what its end means.

At its end kopf cancels every task of the loop that is younger than itself, so the server, the lease and the workers are
started before it; it ends first (nothing new comes in), then the workers, then the lease is given away. A lost lease
cancels the workers at once.
"""

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp
import kopf
from prometheus_client import CollectorRegistry

from pdserving.controller.audit import Audit
from pdserving.controller.cache import Cache, Key
from pdserving.controller.metrics import Metrics
from pdserving.controller.observer import Observer
from pdserving.controller.pools import PoolReader
from pdserving.controller.reconciler import Reconciler
from pdserving.controller.server import Health, serve
from pdserving.controller.settings import build_settings, quiet_kopf
from pdserving.controller.watches import build_registry
from pdserving.controller.workers import Workers
from pdserving.controller.workqueue import WorkQueue
from pdserving.core.actions import Defaults
from pdserving.kube.client import KubeClient
from pdserving.kube.events import Recorder
from pdserving.kube.lease import Lease, LeaseLostError, lead

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    defaults: Defaults
    metrics: str = "0.0.0.0:9100"
    namespaces: tuple[str, ...] = ()
    """Empty: the whole cluster."""
    resync: float = 600.0
    workers: int = 4
    lease_namespace: str = ""
    lease_name: str = ""
    """Empty: no lease, for a single operator on a developer's machine."""
    identity: str = "pdserving-operator"


async def run(options: Options) -> int:
    """Until SIGTERM; the exit status."""
    quiet_kopf()
    operator = Operator(options)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient.connect(operator.metrics.count_request))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        await stack.enter_async_context(
            serve(options.metrics, operator.health, operator.metrics, operator.refresh_metrics)
        )
        try:
            async with _terminable():
                await operator.run(client, session)
        except LeaseLostError as error:
            log.error("stopped working", extra={"fields": {"error": str(error)}})
            return 1
        except asyncio.CancelledError:
            log.info("stopped")
    return 0


class Operator:
    def __init__(self, options: Options) -> None:
        self._options = options
        self.metrics = Metrics(CollectorRegistry())
        self._queue: WorkQueue[Key] = WorkQueue(clock=time.monotonic, on_wait=self.metrics.queue_seconds.observe)
        self._cache = Cache()
        self.health = Health(longest_look=lambda: self._queue.longest_active)
        self.metrics.show_groups(self._cache)

    def refresh_metrics(self) -> None:
        self.metrics.queue_depth.set(self._queue.depth)

    async def run(self, client: KubeClient, session: aiohttp.ClientSession) -> None:
        """Work, as soon as and as long as we may."""
        options = self._options
        if not options.lease_name:
            await self._work(client, session)
            return
        lease = Lease(
            client,
            namespace=options.lease_namespace,
            name=options.lease_name,
            identity=options.identity,
            clock=time.monotonic,
        )
        await lead(lease, lambda: self._work(client, session))

    async def _work(self, client: KubeClient, session: aiohttp.ClientSession) -> None:
        self.health.leading = True
        self.metrics.leader.set(1)
        audit = self._build_audit(client)
        await audit.fill()
        self.health.synced = True
        log.info("filled the cache", extra={"fields": {"groups": len(self._cache.keys()), "objects": len(self._cache)}})
        workers = self._build_workers(client, session)
        running = [asyncio.create_task(workers.work(), name=f"worker {i}") for i in range(self._options.workers)]
        running.append(asyncio.create_task(audit.run(), name="audit"))
        try:
            await self._watch(client, audit)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _build_audit(self, client: KubeClient) -> Audit:
        options = self._options
        return Audit(
            client, self._cache, namespaces=options.namespaces, period=options.resync, on_changed=self._queue.add
        )

    def _build_workers(self, client: KubeClient, session: aiohttp.ClientSession) -> Workers:
        def now() -> datetime:
            return datetime.now(UTC)

        observer = Observer(client, self._cache, PoolReader(session), clock=time.monotonic)
        recorder = Recorder(client, now=now, instance=self._options.identity)
        reconciler = Reconciler(client, self._cache, observer, recorder, defaults=self._options.defaults, now=now)
        return Workers(self._queue, reconciler, self.metrics, resync=self._options.resync)

    async def _watch(self, client: KubeClient, audit: Audit) -> None:
        """Until SIGTERM, or an error of the watches that only a restart heals."""
        registry = build_registry(self._cache, self._queue, audit, client.connection, self.metrics.count_event)
        await kopf.operator(
            registry=registry,
            settings=build_settings(),
            # kopf would ask for the name of the user, and a container's need not have one.
            identity=self._options.identity,  # type: ignore[arg-type]
            clusterwide=not self._options.namespaces,
            namespaces=self._options.namespaces,
        )


@asynccontextmanager
async def _terminable() -> AsyncIterator[None]:
    """SIGTERM and SIGINT cancel the block; kopf takes the signals over while it runs and returns on them."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101 - for the type checker
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    yield
