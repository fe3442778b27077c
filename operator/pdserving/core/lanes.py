"""When a lane may go: the old one serves until the new one can, and never longer.

A change on which prefill and decode must agree brings up a second pair of StatefulSets beside the first. This module
decides which lane serves and which ones are in nobody's interest any more.
"""

from collections.abc import Sequence

from pdserving.api.conditions import UNSCHEDULABLE
from pdserving.core.failures import diagnose_pod
from pdserving.core.view import ROLES, Lane, View


def find_serving(view: View, target: str | None) -> Lane | None:
    """The lane that answers: the wanted one if it can, else that with the most engines, the oldest of equals."""
    if target is not None and view.lane(target).serving:
        return view.lane(target)
    serving = [lane for lane in view.lanes.values() if lane.serving]
    return min(serving, key=lambda lane: (-sum(lane.scale(role).ready for role in ROLES), lane.created), default=None)


def find_obsolete(view: View, target: str, last_served: str | None) -> Sequence[Lane]:
    """Lanes to delete. All others than the target once that is complete; before, all but the one that serves.

    A lane that served last but does not now (its only prefill engine restarts, say) stays too, unless the target waits
    for the very devices that it holds.
    """
    others = [lane for lane in view.lanes.values() if lane.name != target]
    if all(view.lane(target).scale(role).settled for role in ROLES):
        return others
    serving = find_serving(view, target)
    kept = serving.name if serving and serving.name != target else None
    if serving is None and not _waits_for_devices(view, target):
        kept = last_served
    return [lane for lane in others if lane.name != kept]


def _waits_for_devices(view: View, target: str) -> bool:
    failures = (diagnose_pod(pod, view.observed) for role in ROLES for pod in view.pods(role, target))
    return any(failure and failure.reason == UNSCHEDULABLE for failure in failures)
