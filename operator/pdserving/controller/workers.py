"""Workers between the queue and the reconciler: what an outcome means for the key's next look."""

import asyncio
import logging
import random
from typing import Final

from pdserving.controller.cache import Key
from pdserving.controller.metrics import Metrics
from pdserving.controller.reconciler import Reconciler, Result
from pdserving.controller.workqueue import WorkQueue
from pdserving.kube.errors import KubeError

log = logging.getLogger(__name__)

DEADLINE: Final = 120.0
"""Seconds for one look: all its requests have deadlines of their own, this one is for what nobody thought of."""


class Workers:
    def __init__(self, queue: WorkQueue[Key], reconciler: Reconciler, metrics: Metrics, *, resync: float) -> None:
        self._queue = queue
        self._reconciler = reconciler
        self._metrics = metrics
        self._resync = resync

    async def work(self) -> None:
        """One worker, for ever."""
        while True:
            key = await self._queue.get()
            try:
                await self._look(key)
            finally:
                self._queue.done(key)

    async def _look(self, key: Key) -> None:
        with self._metrics.reconcile_seconds.time():
            result = await self._reconcile(key)
        self._metrics.reconciles.labels(result.outcome).inc()
        if result.outcome == "gone":
            self._queue.drop(key)
            return
        if result.outcome == "failed":
            self._queue.retry(key)
        else:
            self._queue.forget_failures(key)
        self._queue.add(key, self._resync * random.uniform(0.9, 1.1))  # noqa: S311 - not for secrets
        if result.again_after is not None:
            self._queue.add(key, result.again_after)

    async def _reconcile(self, key: Key) -> Result:
        try:
            async with asyncio.timeout(DEADLINE):
                return await self._reconciler.reconcile(key)
        except KubeError as error:
            log.warning("could not reconcile", extra={"fields": {"group": key, "error": error.message}})
        except Exception:
            # A defect in one group's path must not stop the others.
            log.exception("could not reconcile", extra={"fields": {"group": key}})
        return Result("failed")
