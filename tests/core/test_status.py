"""Conditions in every situation a group can be in, and the events that their changes are worth."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pdserving.api import conditions as c
from pdserving.core.observed import Observed
from pdserving.core.plan import VERIFYING_SECONDS, ApplyFailure, Needs, ObjectRef, Plan, needs, plan, report
from tests.core.fake_cluster import FakeCluster
from tests.core.samples import DEFAULTS, NOW, make_group


def reconcile(cluster: FakeCluster, group: dict[str, Any]) -> Plan:
    step = plan(group, cluster.observe(), NOW, DEFAULTS)
    cluster.apply(step)
    cluster.run()
    group["status"], _ = report(group, step, [], NOW)
    return step


def start(group: dict[str, Any]) -> FakeCluster:
    cluster = FakeCluster()
    for _ in range(3):
        reconcile(cluster, group)
    return cluster


def judge(group: dict[str, Any], observed: Observed) -> dict[str, tuple[str, str, str]]:
    conditions = plan(group, observed, NOW, DEFAULTS).status["conditions"]
    return {entry["type"]: (entry["status"], entry["reason"], entry["message"]) for entry in conditions}


def set_ready(cluster: FakeCluster, part: str, ready: int) -> None:
    """Of the workload whose name holds `part`, as many pods as given are ready."""
    for (kind, name), live in cluster.objects.items():
        if kind in ("StatefulSet", "Deployment") and part in name:
            live["status"]["readyReplicas"] = ready
            for index, pod in enumerate(pod for pod in cluster.pods if pod["metadata"]["name"].startswith(name)):
                pod["status"] = {"conditions": [{"type": "Ready", "status": str(index < ready)}]}


def test_a_new_group_is_being_created() -> None:
    verdicts = judge(make_group(), Observed())
    assert verdicts[c.READY][:2] == ("False", c.NOT_SERVING)
    assert verdicts[c.RECONCILING][:2] == ("True", c.CREATING)
    assert verdicts[c.STALLED][0] == "False"
    assert verdicts[c.DECODE_AVAILABLE] == ("False", c.NONE_READY, "0 of 2 decode pods are ready")


def test_a_serving_group() -> None:
    group = make_group()
    cluster = start(group)
    verdicts = judge(group, cluster.observe())
    text = "ready: 1 prefill, 2 decode, 2 proxy"
    assert verdicts[c.READY] == ("True", c.SERVING, text)
    assert verdicts[c.RECONCILING][:2] == ("False", c.SETTLED)
    assert verdicts[c.BOOTSTRAP_READY][:2] == ("True", c.ALL_REGISTERED)
    status = group["status"]
    assert status["endpoint"] == "http://llm.serving.svc/v1"
    assert status["decode"] == {"ready": 2, "desired": 2, "updated": 2, "summary": "2/2"}


def test_one_of_two_serves_and_the_other_is_named() -> None:
    group = make_group()
    cluster = start(group)
    set_ready(cluster, "-decode-", 1)
    verdicts = judge(group, cluster.observe())
    assert verdicts[c.READY][0] == "True"
    assert verdicts[c.DECODE_AVAILABLE][:2] == ("True", c.SOME_READY)
    assert verdicts[c.DECODE_AVAILABLE][2].startswith("1 of 2 decode pods are ready: pod llm-decode-")
    assert verdicts[c.RECONCILING][:2] == ("True", c.SCALING)


@pytest.mark.parametrize(("part", "kind"), [("-prefill-", c.PREFILL_AVAILABLE), ("-proxy", c.PROXY_AVAILABLE)])
def test_a_role_without_a_ready_pod_is_not_serving(part: str, kind: str) -> None:
    group = make_group()
    cluster = start(group)
    set_ready(cluster, part, 0)
    verdicts = judge(group, cluster.observe())
    assert verdicts[kind][0] == "False"
    assert verdicts[c.READY][0] == "False"
    assert verdicts[c.READY][2] == verdicts[kind][2]


def test_a_role_without_replicas_says_so() -> None:
    group = make_group(decode={"replicas": 0})
    cluster = start(group)
    verdicts = judge(group, cluster.observe())
    told = ("False", c.SCALED_TO_ZERO, "no decode pods are wanted; raise replicas of decode")
    assert verdicts[c.DECODE_AVAILABLE] == verdicts[c.READY] == told


def test_what_blocks_is_told_before_what_passes() -> None:
    group = make_group()
    cluster = start(group)
    set_ready(cluster, "-decode-", 0)
    first, second = (pod for pod in cluster.pods if "-decode-" in pod["metadata"]["name"])
    first["status"]["containerStatuses"] = [
        {"name": "engine", "ready": False, "state": {"running": {"startedAt": "x"}}}
    ]
    waiting = {"reason": "ErrImagePull", "message": "not found"}
    second["status"]["containerStatuses"] = [{"name": "engine", "ready": False, "state": {"waiting": waiting}}]
    verdicts = judge(group, cluster.observe())
    assert verdicts[c.DECODE_AVAILABLE][1] == c.IMAGE_PULL_FAILED
    assert verdicts[c.STALLED][:2] == ("True", c.IMAGE_PULL_FAILED)


def test_a_changed_template_is_rolled_out() -> None:
    group = make_group()
    cluster = start(group)
    group["spec"]["engine"] = {"args": ["--max-num-seqs=3"]}
    assert judge(group, cluster.observe())[c.RECONCILING][:2] == ("True", c.ROLLING_OUT)


def test_an_invalid_change_leaves_a_serving_group_alone() -> None:
    group = make_group()
    cluster = start(group)
    group["spec"]["decode"] = {"template": {"spec": {"containers": [{"name": "vllm"}]}}}
    left = plan(group, cluster.observe(), NOW, DEFAULTS)
    assert (left.apply, left.delete) == ((), ())
    verdicts = judge(group, cluster.observe())
    assert verdicts[c.SPEC_VALID][:2] == ("False", c.INVALID_TEMPLATE)
    assert verdicts[c.STALLED][:2] == ("True", c.INVALID_TEMPLATE)
    assert verdicts[c.READY][:2] == ("True", c.SERVING_LAST_VALID_SPEC)
    assert left.status["endpoint"] == "http://llm.serving.svc/v1"


def test_an_invalid_new_group_makes_nothing() -> None:
    group = make_group(nonsense=1)
    result = plan(group, Observed(), NOW, DEFAULTS)
    assert result.apply == ()
    assert "endpoint" not in result.status
    assert judge(group, Observed())[c.READY] == ("False", c.INVALID_SPEC, "spec.nonsense: unknown field, remove it")


BROKEN = {"state": "failed", "reason": c.NO_KV_MOVED, "message": "the decode engine fetched 0", "age": 1}
BLIND = {"state": "unknown", "reason": c.CANARY_REFUSED, "message": "decode engine d answered with status 401"}


def start_unverified(group: dict[str, Any], **said: Any) -> FakeCluster:
    cluster = FakeCluster()
    cluster.pairs = {"state": "unknown", "reason": c.VERIFYING, **said}
    for _ in range(3):
        reconcile(cluster, group)
    return cluster


def test_a_group_is_not_ready_before_kv_transfer_is_verified() -> None:
    group = make_group()
    cluster = start_unverified(group)
    step = plan(group, cluster.observe(), NOW, DEFAULTS)
    verdicts = judge(group, cluster.observe())
    assert verdicts[c.KV_TRANSFER_VERIFIED] == ("Unknown", c.VERIFYING, "0 of 3 engines passed a canary")
    assert verdicts[c.READY] == ("False", c.KV_TRANSFER_NOT_VERIFIED, "0 of 3 engines passed a canary")
    assert step.requeue_after == VERIFYING_SECONDS
    cluster.pairs = {}
    assert judge(group, cluster.observe())[c.READY][:2] == ("True", c.SERVING)


def test_a_pair_that_fails_makes_a_ready_group_not_ready_and_says_why() -> None:
    group = make_group()
    cluster = start(group)
    cluster.pairs = BROKEN
    verdicts = judge(group, cluster.observe())
    assert verdicts[c.READY] == verdicts[c.KV_TRANSFER_VERIFIED]
    assert verdicts[c.READY][:2] == ("False", c.NO_KV_MOVED)
    assert verdicts[c.PROXY_AVAILABLE][0] == "True"


@pytest.mark.parametrize("said", [BLIND, {"state": "unknown", "reason": c.VERIFYING}])
def test_where_nothing_can_be_said_a_ready_group_stays_ready(said: dict[str, Any]) -> None:
    group = make_group()
    cluster = start(group)
    cluster.pairs = said
    verdicts = judge(group, cluster.observe())
    assert verdicts[c.KV_TRANSFER_VERIFIED][0] == "Unknown"
    assert verdicts[c.READY][:2] == ("True", c.SERVING)


def test_proxies_that_cannot_be_asked_leave_a_ready_group_ready() -> None:
    group = make_group()
    cluster = start(group)
    silent = replace(cluster.observe(), pools=())
    verdicts = judge(group, silent)
    assert verdicts[c.KV_TRANSFER_VERIFIED][:2] == ("Unknown", c.NO_PROXY_REPORT)
    assert verdicts[c.READY][:2] == ("True", c.SERVING)


def test_a_new_lane_must_be_verified_anew() -> None:
    group = make_group()
    cluster = start(group)
    cluster.pairs = {"state": "unknown", "reason": c.VERIFYING}
    group["spec"]["engine"] = {"image": "registry.example/vllm:2"}
    for _ in range(3):
        reconcile(cluster, group)
    assert judge(group, cluster.observe())[c.READY][:2] == ("False", c.KV_TRANSFER_NOT_VERIFIED)


def test_engines_that_are_too_busy_for_canaries_serve() -> None:
    group = make_group()
    cluster = start_unverified(group, reason=c.ENGINES_BUSY, message="requests wait at the engines")
    verdicts = judge(group, cluster.observe())
    assert verdicts[c.KV_TRANSFER_VERIFIED][:2] == ("Unknown", c.ENGINES_BUSY)
    assert verdicts[c.READY][:2] == ("True", c.SERVING)


@pytest.mark.parametrize("mode", ["Warn", "Off"])
def test_ready_does_not_depend_on_it_unless_enforced(mode: str) -> None:
    group = make_group(verification={"mode": mode})
    cluster = start_unverified(group)
    cluster.pairs = BROKEN
    verdicts = judge(group, cluster.observe())
    told = {"Warn": ("False", c.NO_KV_MOVED), "Off": ("Unknown", c.NO_TRANSFER_SEEN)}[mode]
    assert verdicts[c.KV_TRANSFER_VERIFIED][:2] == told
    assert verdicts[c.READY][:2] == ("True", c.SERVING)


def test_an_invalid_spec_does_not_hide_what_canaries_show() -> None:
    group = make_group()
    cluster = start(group)
    group["spec"]["nonsense"] = 1
    verdicts = judge(group, cluster.observe())
    assert verdicts[c.KV_TRANSFER_VERIFIED][:2] == ("True", c.VERIFIED)
    assert verdicts[c.READY][:2] == ("True", c.SERVING_LAST_VALID_SPEC)


def test_status_lists_pairs_only_where_canaries_run() -> None:
    group = make_group()
    start(group)
    assert [pair["state"] for pair in group["status"]["pairs"]] == ["verified", "verified"]
    group = make_group(verification={"mode": "Off"})
    start(group)
    assert "pairs" not in group["status"]


def test_a_deleted_group_is_left_to_the_garbage_collector() -> None:
    group = make_group()
    group["status"] = {"lane": "x"}
    group["metadata"]["deletionTimestamp"] = "2026-12-01T00:00:00Z"
    result = plan(group, Observed(), NOW, DEFAULTS)
    assert result == Plan(status={"lane": "x"})
    assert report(group, result, [], NOW) == ({"lane": "x"}, ())


def test_times_change_only_with_status() -> None:
    group = make_group()
    cluster = start(group)
    later = NOW + timedelta(hours=1)
    set_ready(cluster, "-decode-", 0)
    group["metadata"]["generation"] = 2
    conditions = {e["type"]: e for e in plan(group, cluster.observe(), later, DEFAULTS).status["conditions"]}
    assert conditions[c.SPEC_VALID]["lastTransitionTime"] == "2026-12-01T03:00:00Z"
    assert conditions[c.READY]["lastTransitionTime"] == "2026-12-01T04:00:00Z"
    assert {entry["observedGeneration"] for entry in conditions.values()} == {2}


def test_long_messages_are_cut() -> None:
    group = make_group(**{"x" * 2000: 1})
    assert all(len(message) <= 1024 for _, _, message in judge(group, Observed()).values())


def test_what_must_be_looked_at_further() -> None:
    group = make_group()
    cluster = start(group)
    assert needs(group, cluster.observe()) == Needs(events=False, logs=(), pools=True)
    assert needs(group, Observed()) == Needs(events=True, logs=(), pools=False)
    set_ready(cluster, "-decode-", 1)
    ended = {"name": "engine", "ready": False, "lastState": {"terminated": {"exitCode": 1}}}
    pod = next(
        pod for pod in cluster.pods if "-decode-" in pod["metadata"]["name"] and pod["metadata"]["name"][-1] == "1"
    )
    pod["status"]["containerStatuses"] = [ended]
    assert needs(group, cluster.observe()) == Needs(events=True, logs=(pod["metadata"]["name"],), pools=True)


def fail(group: dict[str, Any], plan: Plan, reason: str, message: str, name: str = "llm-proxy") -> dict[str, Any]:
    ref = ObjectRef("apps/v1", "Deployment", "serving", name)
    status, events = report(group, plan, [ApplyFailure(ref, reason, message)], NOW)
    found = {entry["type"]: (entry["status"], entry["reason"], entry["message"]) for entry in status["conditions"]}
    return {**found, "events": [event.reason for event in events]}


@pytest.mark.parametrize(
    ("reason", "told"),
    [("Invalid", c.REJECTED), ("Forbidden", c.FORBIDDEN), ("AlreadyExists", c.NAME_TAKEN)],
)
def test_a_refused_object_stalls_a_new_group(reason: str, told: str) -> None:
    group = make_group()
    step = plan(group, Observed(), NOW, DEFAULTS)
    found = fail(group, step, reason, "spec.x: no")
    assert found[c.STALLED] == ("True", told, "Deployment llm-proxy: spec.x: no")
    assert found[c.READY] == ("False", told, "Deployment llm-proxy: spec.x: no")
    assert found[c.RECONCILING][0] == "False"
    assert found[c.SPEC_VALID][0] == ("False" if told == c.REJECTED else "True")
    assert found["events"] == [told]


def test_a_refused_object_leaves_a_serving_group_ready() -> None:
    group = make_group()
    cluster = start(group)
    found = fail(group, plan(group, cluster.observe(), NOW, DEFAULTS), "Invalid", "no")
    assert found[c.READY][:2] == ("True", c.SERVING_LAST_VALID_SPEC)


def test_a_refused_template_is_named() -> None:
    group = make_group(proxy={"template": {"spec": {"nodeSelektor": {}}}})
    step = plan(group, Observed(), NOW, DEFAULTS)
    assert [live["kind"] for live in step.dry_run] == ["Deployment"]
    found = fail(group, step, "Invalid", ".spec.x: field not declared in schema")
    text = "Deployment llm-proxy: .spec.x: field not declared in schema; correct spec.proxy.template"
    assert found[c.SPEC_VALID] == ("False", c.REJECTED, text)


def test_a_passing_failure_is_tried_again() -> None:
    group = make_group()
    found = fail(group, plan(group, Observed(), NOW, DEFAULTS), "Unavailable", "no answer")
    assert found[c.RECONCILING] == ("True", c.RETRYING, "Deployment llm-proxy: no answer; trying again")
    assert found[c.STALLED][0] == "False"
    assert found["events"] == []


def test_events_tell_changes_of_ready_once() -> None:
    group = make_group()
    cluster = FakeCluster()
    seen = []
    for _ in range(4):
        step = plan(group, cluster.observe(), NOW, DEFAULTS)
        cluster.apply(step)
        cluster.run()
        group["status"], events = report(group, step, [], NOW)
        seen += [(event.type, event.reason) for event in events]
    set_ready(cluster, "-decode-", 0)
    step = plan(group, cluster.observe(), NOW, DEFAULTS)
    _, events = report(group, step, [], NOW)
    assert seen == [("Normal", "Ready")]
    assert [event.type for event in events] == ["Warning"]
