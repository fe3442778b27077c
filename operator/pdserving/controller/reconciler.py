"""One look at a group: observe → plan → act → report.

Status is written once, only if it changed, and also when an object could not be written; events follow it.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pdserving.controller.actor import Actor, Outcome
from pdserving.controller.cache import Cache, Key
from pdserving.controller.observer import Observer
from pdserving.core.actions import Defaults, Event, Plan
from pdserving.core.plan import plan, report
from pdserving.kube.client import Kube
from pdserving.kube.errors import KubeError, NotFoundError
from pdserving.kube.events import Recorder
from pdserving.kube.kinds import GROUPS, Kind

log = logging.getLogger(__name__)

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    outcome: Literal["gone", "settled", "changed", "failed"]
    again_after: float | None = None
    """Seconds after which to look again although nothing was reported."""


class Reconciler:
    def __init__(
        self,
        client: Kube,
        cache: Cache,
        observer: Observer,
        recorder: Recorder,
        *,
        defaults: Defaults,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._cache = cache
        self._observer = observer
        self._recorder = recorder
        self._actor = Actor(client, self._take_in)
        self._defaults = defaults
        self._now = now

    async def reconcile(self, key: Key) -> Result:
        """Raises `KubeError` if the status could not be written."""
        group = self._cache.group(key)
        if group is None:
            return Result("gone")
        observed = await self._observer.observe(key, group)
        planned = plan(group, observed, self._now(), self._defaults)
        outcome = await self._actor.act(planned, observed.objects)
        reported = await self._report(group, planned, outcome)
        _log(key, planned, outcome, reported=reported)
        if outcome.failures:
            return Result("failed")  # the queue's backoff says when again
        if outcome.changed:
            return Result("changed", 0.0)  # the plan was made before its own effect
        return Result("changed" if reported else "settled", planned.requeue_after)

    async def _report(self, group: Manifest, planned: Plan, outcome: Outcome) -> bool:
        """Whether there was something to say."""
        status, events = report(group, planned, outcome.failures, self._now())
        patch = diff_status(group.get("status") or {}, status)
        metadata = group["metadata"]
        if patch:
            try:
                answer = await self._client.patch_status(
                    metadata["namespace"], metadata["name"], metadata["uid"], patch
                )
            except NotFoundError:
                return False  # deleted meanwhile
            self._take_in(GROUPS, answer)
        for event in events:
            await self._record(group, event)
        return bool(patch)

    async def _record(self, group: Manifest, event: Event) -> None:
        """An event that is lost is no reason to act or to report again."""
        try:
            await self._recorder.record(group, event)
        except KubeError as error:
            fields = {"group": group["metadata"]["name"], "reason": event.reason, "error": error.message}
            log.warning("could not record an event", extra={"fields": fields})

    def _take_in(self, kind: Kind, manifest: Manifest) -> bool:
        return bool(self._cache.put(kind, manifest))


def diff_status(before: Manifest, after: Manifest) -> dict[str, Any]:
    """The merge patch (RFC 7386) from one to the other; empty if they are equal."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            nested = diff_status(old, value)
            if nested:
                patch[key] = nested
        elif value != old:
            patch[key] = value
    return patch


def _log(key: Key, planned: Plan, outcome: Outcome, *, reported: bool) -> None:
    """One line for a look that changed something, none for the others."""
    if not (outcome.changed or outcome.failures or reported):
        return
    ready: Manifest = next((c for c in planned.status.get("conditions", ()) if c["type"] == "Ready"), {})
    fields = {
        "group": key,
        "applied": len(planned.apply),
        "deleted": len(planned.delete),
        "failed": len(outcome.failures),
        "ready": ready.get("status"),
        "reason": ready.get("reason"),
    }
    for failure in outcome.failures:
        about = {"group": key, "object": f"{failure.ref.kind}/{failure.ref.name}"}
        log.warning("could not write", extra={"fields": {**about, "reason": failure.reason, "error": failure.message}})
    log.info("reconciled", extra={"fields": fields})
