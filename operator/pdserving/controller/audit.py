"""Proof that the cache holds what the API server holds.

kopf never synthesises a deletion: what vanished while a watch was broken stays in a cache that is fed by events alone.
Its only trace is that kopf lists the kind again, and an empty list leaves not even that. So a listing of any kind makes
all of them suspect, and every period they are compared anyway: one LIST a kind, however many groups there are.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Sequence
from typing import Final

from pdserving.controller.cache import Cache, Key
from pdserving.controller.settings import SELECTOR
from pdserving.kube.client import Kube
from pdserving.kube.errors import KubeError
from pdserving.kube.kinds import GROUPS, WATCHED, Kind

log = logging.getLogger(__name__)

QUIET: Final = 2.0
"""Seconds without another listed object after which a listing is taken as complete."""
RETRY: Final = 5.0


class Audit:
    def __init__(
        self,
        client: Kube,
        cache: Cache,
        *,
        namespaces: Sequence[str],
        period: float,
        on_changed: Callable[[Key], None],
    ) -> None:
        self._client = client
        self._cache = cache
        self._scopes: Sequence[str | None] = tuple(namespaces) or (None,)
        self._period = period
        self._on_changed = on_changed
        self._suspected = asyncio.Event()

    def suspect(self) -> None:
        self._suspected.set()

    async def fill(self) -> None:
        """Fill an empty cache before anything is decided by it; tries until it succeeds."""
        while not await self._try():  # noqa: ASYNC110 - nothing tells when the API server is back
            await asyncio.sleep(RETRY)

    async def run(self) -> None:
        while True:
            await self._wait()
            if not await self._try():
                self._suspected.set()
                await asyncio.sleep(RETRY)

    async def compare(self) -> set[Key]:
        """The groups about which the cache was wrong. Raises `KubeError`."""
        changed: set[Key] = set()
        for kind in WATCHED:
            for namespace in self._scopes:
                changed |= await self._compare(kind, namespace)
        return changed

    async def _compare(self, kind: Kind, namespace: str | None) -> set[Key]:
        labels = "" if kind == GROUPS else SELECTOR
        listing = await self._client.list(kind, namespace, labels=labels)
        return self._cache.replace(kind, namespace, listing.resource_version, listing.items)

    async def _try(self) -> bool:
        try:
            changed = await self.compare()
        except KubeError as error:
            hint = "; is the CRD installed?" if error.status == 404 else ""
            log.error("could not list", extra={"fields": {"error": f"{error.message}{hint}"}})
            return False
        for key in changed:
            self._on_changed(key)
        return True

    async def _wait(self) -> None:
        """Until a listing is over or the period has passed."""
        period = self._period * random.uniform(0.9, 1.1)  # noqa: S311 - not for secrets
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(period):
                await self._suspected.wait()
        while self._suspected.is_set():
            self._suspected.clear()
            await asyncio.sleep(QUIET)
