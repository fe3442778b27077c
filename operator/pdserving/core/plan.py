"""Decide, from a group's spec and what was observed, what to write: pure and total.

Any spec and any observed state, nonsense included, gives a `Plan`. Bad input becomes a condition and leaves a running
group untouched. Applying a plan and planning again gives an empty one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pdserving.api import conditions as c
from pdserving.api.conditions import INVALID_SPEC, INVALID_TEMPLATE
from pdserving.api.labels import DECODE, PREFILL, PROXY, ROLE_LABEL
from pdserving.api.v1alpha1 import ProxySpec, RoleSpec
from pdserving.core.actions import ApplyFailure, Defaults, Event, Needs, ObjectRef, Plan
from pdserving.core.conditions import build_conditions, find_transitions, read_verdicts
from pdserving.core.diff import differs
from pdserving.core.failures import crashed
from pdserving.core.group import Group, Problem, parse_group
from pdserving.core.kv import compute_lane
from pdserving.core.lanes import find_obsolete
from pdserving.core.observed import Observed
from pdserving.core.refusals import judge_failures
from pdserving.core.resources import build_objects
from pdserving.core.resources.preflight_container import keep_running_image
from pdserving.core.situation import Situation
from pdserving.core.status import build_status
from pdserving.core.template import TemplateError, look_up
from pdserving.core.view import ROLES, Lane, View, name_of, read_view

__all__ = ["ApplyFailure", "Defaults", "Event", "Needs", "ObjectRef", "Plan", "needs", "plan", "report"]

LOOK_AGAIN_SECONDS = 15.0
"""While something is not settled: events and a proxy's pool are not watched."""
VERIFYING_SECONDS = 3.0
"""While Ready waits for nothing but a canary, which is known to the proxies alone."""
WATCH_SECONDS = 30.0
"""While all is well: the same holds for a KV transfer that fails later."""
SETTLED = ((c.READY, "True"), (c.RECONCILING, "False"), (c.STALLED, "False"), (c.BOOTSTRAP_READY, "True"))


def needs(group: Mapping[str, Any], observed: Observed) -> Needs:
    """What else `plan` must know, judged from cached objects and pods alone."""
    view = read_view(observed)
    return Needs(
        events=not _is_settled(view),
        logs=tuple(name_of(pod) for role in ROLES for pod in view.pods(role) if crashed(pod)),
        pools=bool(view.proxies.desired and view.pods("prefill")),
    )


def _is_settled(view: View) -> bool:
    scales = [lane.scale(role) for lane in view.lanes.values() for role in ROLES]
    return all(scale.settled for scale in (*scales, view.proxies)) and bool(scales)


def _is_deleted(group: Mapping[str, Any]) -> bool:
    """Its objects go with it, by their owner references."""
    return bool(look_up(group, ("metadata", "deletionTimestamp")))


def plan(group: Mapping[str, Any], observed: Observed, now: datetime, defaults: Defaults) -> Plan:
    if _is_deleted(group):
        return Plan(status=dict(group.get("status") or {}))
    view = read_view(observed)
    parsed = parse_group(group)
    wanted = parsed if isinstance(parsed, Problem) else _build(parsed, defaults)
    return _hold(group, view, wanted, now) if isinstance(wanted, Problem) else _proceed(group, view, wanted, now)


@dataclass(frozen=True, slots=True)
class Wanted:
    group: Group
    lane: str
    objects: tuple[dict[str, Any], ...]


def _build(group: Group, defaults: Defaults) -> Wanted | Problem:
    images = tuple(group.role(role).image or group.spec.engine.image or defaults.engine_image or "" for role in ROLES)
    if not all(images):
        return Problem(
            INVALID_SPEC, "spec.engine.image: set it, the operator was installed without a default engine image"
        )
    lane = compute_lane(group.spec, group.served_name, (images[0], images[1]))
    try:
        return Wanted(group, lane, build_objects(group, lane, (images[0], images[1]), defaults))
    except TemplateError as error:
        return Problem(INVALID_TEMPLATE, str(error))


def _hold(manifest: Mapping[str, Any], view: View, problem: Problem, now: datetime) -> Plan:
    """Touch nothing: what runs goes on as it was."""
    before = manifest.get("status") or {}
    situation = Situation(view=view, group=None, problem=problem, target=None, pending=0, before=before)
    return Plan(status=build_status(situation, manifest, now))


def _proceed(manifest: Mapping[str, Any], view: View, wanted: Wanted, now: datetime) -> Plan:
    last_served = look_up(manifest, ("status", "lane"))
    obsolete = find_obsolete(view, wanted.lane, last_served)
    apply = tuple(_find_different(wanted.objects, view.observed))
    delete = tuple(ObjectRef.of(live) for lane in obsolete for live in lane.sets.values())
    situation = Situation(
        view=view,
        group=wanted.group,
        problem=None,
        target=wanted.lane,
        pending=len(apply) + len(delete),
        before=manifest.get("status") or {},
    )
    status = build_status(situation, manifest, now)
    return Plan(
        apply=apply,
        delete=delete,
        status=status,
        events=tuple(_find_lane_events(view, wanted.lane, obsolete)),
        requeue_after=_look_again(status),
        dry_run=tuple(manifest for manifest in apply if _carries_template(wanted.group, manifest)),
    )


def _find_different(objects: Sequence[dict[str, Any]], observed: Observed) -> Iterator[dict[str, Any]]:
    live = {(found.get("kind"), name_of(found)): found for found in observed.objects}
    for desired in objects:
        found = live.get((desired["kind"], desired["metadata"]["name"]))
        if found is None or (differs(desired, found) and differs(keep_running_image(desired, found), found)):
            yield desired


def _carries_template(group: Group, manifest: Mapping[str, Any]) -> bool:
    spec = group.spec
    owners: dict[Any, RoleSpec | ProxySpec] = {PREFILL: spec.prefill, DECODE: spec.decode, PROXY: spec.proxy}
    role = look_up(manifest, ("spec", "template", "metadata", "labels", ROLE_LABEL))
    return role in owners and owners[role].template is not None


def _look_again(status: Mapping[str, Any]) -> float | None:
    verdicts = read_verdicts(status)
    if verdicts[c.READY].reason == c.SUSPENDED:
        return None
    if verdicts[c.READY].reason == c.KV_TRANSFER_NOT_VERIFIED:
        return VERIFYING_SECONDS
    settled = all(verdicts[kind].status == wanted for kind, wanted in SETTLED)
    return WATCH_SECONDS if settled else LOOK_AGAIN_SECONDS


def _find_lane_events(view: View, target: str, obsolete: Sequence[Lane]) -> Iterator[Event]:
    if view.lanes and target not in view.lanes:
        text = f"lane {target} comes up beside {', '.join(view.lanes)}: what changed concerns prefill and decode alike"
        yield Event("Normal", "LaneCreated", text)
    for lane in obsolete:
        yield Event("Normal", "LaneDeleted", f"lane {lane.name} is deleted, lane {target} takes its place")


def report(
    group: Mapping[str, Any], plan: Plan, failures: Sequence[ApplyFailure], now: datetime
) -> tuple[dict[str, Any], tuple[Event, ...]]:
    """Status and events after acting: the plan's, corrected by what could not be written."""
    if _is_deleted(group):
        return plan.status, ()
    verdicts = read_verdicts(plan.status)
    if failures:
        verdicts |= judge_failures(verdicts, failures, plan.dry_run)
    conditions = build_conditions(verdicts, group, now)
    return {**plan.status, "conditions": conditions}, (*plan.events, *find_transitions(verdicts, group))
