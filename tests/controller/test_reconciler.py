"""Whole looks at a group on a cluster in memory."""

from typing import Any

import pytest

from pdserving.controller.reconciler import diff_status
from pdserving.kube.errors import ConflictError, InvalidError, KubeError, UnavailableError, UnreachableError
from pdserving.kube.kinds import GROUPS, OWNED, find_kind
from tests.support.harness import KEY, Harness, make_group

SETS = find_kind("apps/v1", "StatefulSet")
SERVICES = find_kind("v1", "Service")


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.cluster.create(make_group())
    return made


def stateful_sets(harness: Harness) -> dict[str, dict[str, Any]]:
    return {name: m for (plural, _, name), m in harness.cluster.objects.items() if plural == SETS.plural}


async def test_new_group_gets_all_its_objects_and_one_status(harness: Harness) -> None:
    await harness.reconcile()
    kinds = {plural for plural, *_ in harness.cluster.objects}
    assert kinds >= {kind.plural for kind in OWNED}
    assert [request for request in harness.cluster.writes if request.startswith("patch")] == [
        "patch PDServingGroup llm"
    ]


async def test_new_group_costs_at_most_fifteen_requests(harness: Harness) -> None:
    await harness.reconcile()
    assert len(harness.cluster.requests) <= 15, harness.cluster.requests


async def test_settled_group_costs_no_write_and_no_list_of_its_objects(harness: Harness) -> None:
    await harness.settle()
    harness.cluster.requests.clear()
    for _ in range(3):
        await harness.reconcile()
    assert set(harness.cluster.requests) <= {"list Event"}, "events are looked at while pods are not ready"
    assert harness.cluster.writes == []


async def test_operator_that_starts_anew_writes_nothing(harness: Harness) -> None:
    await harness.settle()
    restarted = Harness()
    restarted.reconciler._client = restarted.audit._client = harness.cluster
    restarted.observer._client = restarted.reconciler._actor._client = harness.cluster
    await restarted.audit.compare()
    harness.cluster.requests.clear()
    assert (await restarted.reconcile()).outcome == "settled"
    assert harness.cluster.writes == []


async def test_deleted_child_comes_back(harness: Harness) -> None:
    await harness.settle()
    harness.cluster.end(SERVICES, "serving", "llm")
    await harness.settle()
    assert ("services", "serving", "llm") in harness.cluster.objects


async def test_edited_child_is_set_right_and_nothing_else_is_touched(harness: Harness) -> None:
    await harness.settle()
    harness.cluster.edit(SERVICES, "serving", "llm", lambda m: m["spec"].update(selector={"app": "other"}))
    harness.cluster.requests.clear()
    await harness.settle()
    assert harness.cluster.writes == ["apply Service llm"]


async def test_field_of_another_owner_is_left_alone(harness: Harness) -> None:
    harness.cluster.edit(GROUPS, "serving", "llm", lambda m: m["spec"]["decode"].pop("replicas"))
    await harness.settle()
    name = next(name for name in stateful_sets(harness) if "decode" in name)
    harness.cluster.edit(SETS, "serving", name, lambda m: m["spec"].update(replicas=7))
    await harness.settle()
    assert stateful_sets(harness)[name]["spec"]["replicas"] == 7


async def test_failing_object_stops_no_other_and_is_reported(harness: Harness) -> None:
    def broken(verb: str, kind: str, name: str) -> KubeError | None:
        return (
            UnavailableError("webhook is down", reason="InternalError") if (verb, kind) == ("apply", "Role") else None
        )

    harness.cluster.broken = broken
    assert (await harness.reconcile()).outcome == "failed"
    assert ("roles", "serving", "llm-proxy") not in harness.cluster.objects
    assert ("deployments", "serving", "llm-proxy") in harness.cluster.objects, "came after the failed one"
    assert "webhook is down" in harness.condition("Reconciling")["message"]
    assert harness.condition("Reconciling")["reason"] == "Retrying"


async def test_refused_object_stalls_the_group(harness: Harness) -> None:
    def broken(verb: str, kind: str, name: str) -> KubeError | None:
        return InvalidError("spec.x: wrong", reason="Invalid", status=422) if kind == "StatefulSet" else None

    harness.cluster.broken = broken
    await harness.reconcile()
    assert harness.condition("Stalled")["status"] == "True"
    assert "spec.x: wrong" in harness.condition("Stalled")["message"]
    assert "Warning Rejected" in harness.events()


async def test_refused_template_creates_nothing_by_halves(harness: Harness) -> None:
    template = {"spec": {"dnsPolicy": "Sometimes"}}
    harness.cluster.edit(GROUPS, "serving", "llm", lambda m: m["spec"]["prefill"].update(template=template))

    def broken(verb: str, kind: str, name: str) -> KubeError | None:
        return InvalidError("dnsPolicy: wrong", reason="Invalid", status=422) if verb == "dry-run" else None

    harness.cluster.broken = broken
    await harness.reconcile()
    assert not [request for request in harness.cluster.writes if request.startswith("apply") and "Event" not in request]
    assert "dnsPolicy: wrong" in harness.condition("SpecValid")["message"]


async def test_silent_api_server_is_not_asked_for_each_object(harness: Harness) -> None:
    harness.cluster.broken = lambda verb, *_: UnreachableError("no answer") if verb == "apply" else None
    await harness.reconcile()
    assert sum(request.startswith("apply") for request in harness.cluster.requests) == 1


async def test_status_that_could_not_be_written_is_an_error_for_the_queue(harness: Harness) -> None:
    harness.cluster.broken = lambda verb, *_: ConflictError("changed meanwhile") if verb == "patch" else None
    with pytest.raises(ConflictError):
        await harness.reconcile()


async def test_events_follow_the_status_and_none_is_sent_without_it(harness: Harness) -> None:
    harness.cluster.edit(GROUPS, "serving", "llm", lambda m: m["spec"].update(model={}))
    await harness.reconcile()
    assert harness.cluster.writes == ["patch PDServingGroup llm", "apply Event llm." + harness.cluster.writes[1][-16:]]


async def test_invalid_spec_becomes_a_condition_and_touches_no_object(harness: Harness) -> None:
    await harness.settle()
    harness.cluster.edit(GROUPS, "serving", "llm", lambda m: m["spec"].update(prefill={"replicas": -1}))
    harness.cluster.requests.clear()
    await harness.settle()
    assert harness.condition("SpecValid")["status"] == "False"
    assert not [request for request in harness.cluster.writes if request.split()[0:2] == ["apply", "StatefulSet"]]


async def test_service_of_somebody_else_is_not_taken_over(harness: Harness) -> None:
    theirs = {"metadata": {"name": "llm", "namespace": "serving"}, "spec": {"selector": {"app": "their-database"}}}
    harness.cluster.create({"apiVersion": "v1", "kind": "Service", **theirs})
    result = await harness.reconcile()
    assert result.outcome == "failed"
    assert harness.cluster.objects["services", "serving", "llm"]["spec"] == theirs["spec"]
    assert "exists already" in str(harness.group()["status"])


async def test_our_object_that_lost_its_label_is_found_again(harness: Harness) -> None:
    await harness.settle()

    def relabel(manifest: dict[str, Any]) -> None:
        manifest["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "me"}

    edited = harness.cluster.edit(SERVICES, "serving", "llm", relabel)
    harness.cache.remove(SERVICES, edited)  # a watch with a label selector calls it deleted
    harness.cache._ended.clear()
    await harness.reconcile()
    labels = harness.cluster.objects["services", "serving", "llm"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "pdserving-operator"


async def test_deleted_group_is_gone_and_nothing_is_written(harness: Harness) -> None:
    await harness.settle()
    harness.cluster.requests.clear()
    harness.cluster.end(GROUPS, "serving", "llm")
    assert (await harness.reconcile()).outcome == "gone"
    assert harness.cluster.requests == []


async def test_group_deleted_during_a_look_is_no_error(harness: Harness) -> None:
    harness.cluster.watcher = lambda *_: None
    harness.cluster.end(GROUPS, "serving", "llm")
    await harness.reconcile()


async def test_object_that_vanished_behind_a_broken_watch_comes_back_after_the_audit(harness: Harness) -> None:
    await harness.settle()
    harness.cluster.watcher = lambda *_: None
    harness.cluster.end(SERVICES, "serving", "llm")
    assert (await harness.reconcile()).outcome == "settled", "nobody can know"
    harness.cluster.watcher = harness.feed
    assert await harness.audit.compare() == {KEY}
    await harness.settle()
    assert ("services", "serving", "llm") in harness.cluster.objects


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"n": {"a": 1, "b": 2}}, {"n": {"a": 1, "c": 3}}, {"n": {"b": None, "c": 3}}),
        ({"list": [1, 2]}, {"list": [2]}, {"list": [2]}),
        ({"n": {"a": 1}}, {"n": 5}, {"n": 5}),
    ],
)
def test_status_patch_holds_the_difference(before: Any, after: Any, patch: Any) -> None:
    assert diff_status(before, after) == patch
