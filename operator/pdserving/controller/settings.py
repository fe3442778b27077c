"""How kopf is used: as an informer and as nothing else. Each setting has its reason beside it."""

import logging
import random
from collections.abc import Iterator
from typing import Any

import kopf

from pdserving.api.labels import APP_MANAGED_BY, MANAGER
from pdserving.kube.kinds import OWNED, PODS, Kind

SELECTOR = f"{APP_MANAGED_BY}={MANAGER}"


class EndlessBackoffs:
    """Delays between attempts at the API server, in seconds: growing, jittered, without an end.

    kopf exits after its last delay, which would turn an outage of the API server into a crash loop.
    """

    def __iter__(self) -> Iterator[float]:
        delay = 0.5
        while True:
            yield delay * random.uniform(0.75, 1.25)  # noqa: S311 - not for secrets
            delay = min(delay * 2, 15.0)


class NoDiffBase(kopf.DiffBaseStorage):
    """kopf keeps what a handler last saw in an annotation; without change handlers it only costs copies of bodies."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> Any:
        return {}

    def fetch(self, *, body: kopf.Body) -> Any:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: Any) -> None:
        """Nothing of ours is ever written to an object."""


def build_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    # Our kinds are fixed; scanning would need rights on all CRDs and namespaces.
    settings.scanning.disabled = True
    # Joining a peering needs a CRD, and a peer of the same priority stops both. We hold a Lease.
    settings.peering.standalone = True
    # Our recorder counts events instead of repeating them, and says only what a user can use.
    settings.posting.enabled = False
    # The API server filters; otherwise every pod of the cluster would come through here.
    for kind in (*OWNED, PODS):
        settings.watching.label_selectors[select(kind)] = SELECTOR
    # Lists in pages: a peak of memory less in both processes.
    settings.watching.chunk_size = 500
    settings.networking.request_timeout = 30.0
    settings.networking.error_backoffs = EndlessBackoffs()
    settings.persistence.diffbase_storage = NoDiffBase()
    # kopf keeps a task for each object for this long after its last event; ours never wait for a second one.
    settings.queueing.idle_timeout = 0.5
    settings.queueing.exit_timeout = 1.0
    # The kubelet gives 30 seconds; a shutdown that hangs must not last until it kills us.
    settings.process.ultimate_exiting_timeout = 25.0
    return settings


def select(kind: Kind) -> tuple[str, str, str]:
    """The kind as kopf's selectors want it."""
    return kind.group, kind.version, kind.plural


def quiet_kopf() -> None:
    """By default kopf says "handler succeeded" for every event; what it warns of is worth reading."""
    for name in ("kopf", "kopf.objects"):
        logging.getLogger(name).setLevel(logging.WARNING)
