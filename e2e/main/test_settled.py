"""A group that nothing happens to costs nothing: no write in the API server's audit log over three resyncs."""

import time
from datetime import UTC, datetime

import pytest

from e2e.conftest import RESYNC_SECONDS
from e2e.lib import audit
from e2e.lib.groups import Group
from e2e.lib.release import USER, Release
from e2e.lib.target import Target
from e2e.lib.waiting import NotYetError, eventually

RESYNCS = 3
RECONCILES = "pdserving_reconcile_total"


def test_no_writes_over_three_resyncs(target: Target, release: Release, group: Group) -> None:
    if not target.audit_log:
        pytest.skip(f"CLUSTER={target.name} has no audit log here; CLUSTER=self has one")
    since, before = datetime.now(UTC), release.samples()[RECONCILES]
    started = time.monotonic()

    def enough() -> bool:
        seen = release.samples()[RECONCILES] - before
        if seen < RESYNCS:
            raise NotYetError(f"{seen:.0f} of {RESYNCS} reconciles after {time.monotonic() - started:.0f} s")
        return True

    eventually(f"{RESYNCS} resyncs", enough, within=RESYNCS * RESYNC_SECONDS * 3, every=2)
    later = (request for request in audit.requests(target.audit_log, USER) if request.at > since)
    seen = [request for request in later if request.namespace == group.kubectl.namespace]
    assert not audit.writes(seen), audit.summary(audit.writes(seen))
