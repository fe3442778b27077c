"""A change on which both roles must agree brings up a second lane; the first serves until the second is complete."""

from typing import Any

from pdserving.core.plan import plan, report
from tests.core.fake_cluster import FakeCluster
from tests.core.samples import DEFAULTS, NOW, make_group


def reconcile(cluster: FakeCluster, group: dict[str, Any], *, run: bool = True) -> tuple[str, ...]:
    """One round; the reasons of its events."""
    step = plan(group, cluster.observe(), NOW, DEFAULTS)
    cluster.apply(step)
    group["status"], events = report(group, step, [], NOW)
    if run:
        cluster.run()
    return tuple(event.reason for event in events)


def start(group: dict[str, Any]) -> FakeCluster:
    cluster = FakeCluster()
    for _ in range(3):
        reconcile(cluster, group)
    return cluster


def change(group: dict[str, Any], flag: str) -> str:
    """Let the spec ask for another lane; its name."""
    group["metadata"]["generation"] += 1
    group["spec"]["engine"] = {"args": [flag]}
    return str(plan(group, FakeCluster().observe(), NOW, DEFAULTS).status["targetLane"])


def condition(group: dict[str, Any], kind: str) -> dict[str, Any]:
    return dict(next(entry for entry in group["status"]["conditions"] if entry["type"] == kind))


def test_the_old_lane_serves_until_the_new_one_is_complete() -> None:
    group = make_group()
    cluster = start(group)
    old = group["status"]["lane"]
    new = change(group, "--kv-cache-dtype=fp8")
    assert reconcile(cluster, group, run=False) == ("LaneCreated",)
    assert cluster.lanes() == {old, new}
    reconcile(cluster, group)
    assert (group["status"]["lane"], group["status"]["targetLane"]) == (old, new)
    assert condition(group, "Ready")["reason"] == "ServingPreviousLane"
    assert condition(group, "Reconciling")["reason"] == "ChangingLane"
    assert reconcile(cluster, group) == ("LaneDeleted",)
    assert cluster.lanes() == {new}
    reconcile(cluster, group)
    assert group["status"]["lane"] == new
    assert "targetLane" not in group["status"]
    assert condition(group, "Ready")["reason"] == "Serving"


def test_a_broken_new_lane_leaves_the_old_one_alone_and_a_third_replaces_it() -> None:
    group = make_group()
    cluster = start(group)
    old = group["status"]["lane"]
    broken = change(group, "--quantization=nonsense")
    cluster.broken_lanes.add(broken)
    for _ in range(4):
        reconcile(cluster, group)
    assert cluster.lanes() == {old, broken}
    assert condition(group, "Ready")["status"] == "True"
    third = change(group, "--quantization=fp8")
    reconcile(cluster, group)
    assert cluster.lanes() == {old, third}
    for _ in range(3):
        reconcile(cluster, group)
    assert cluster.lanes() == {third}


def test_going_back_ends_the_new_lane() -> None:
    group = make_group()
    cluster = start(group)
    old = group["status"]["lane"]
    cluster.broken_lanes.add(change(group, "--dtype=float64"))
    reconcile(cluster, group)
    group["spec"].pop("engine")
    assert reconcile(cluster, group) == ("LaneDeleted",)
    assert cluster.lanes() == {old}


def test_a_lane_that_never_served_gives_its_place_at_once() -> None:
    group = make_group()
    cluster = FakeCluster()
    first = change(group, "--dtype=float64")
    cluster.broken_lanes.add(first)
    reconcile(cluster, group)
    reconcile(cluster, group)
    new = change(group, "--dtype=float16")
    reconcile(cluster, group)
    assert cluster.lanes() == {new}


def test_a_lane_that_served_survives_a_short_illness() -> None:
    group = make_group()
    cluster = start(group)
    old = group["status"]["lane"]
    cluster.broken_lanes.add(old)
    cluster.run()
    new = change(group, "--dtype=float16")
    reconcile(cluster, group, run=False)
    assert cluster.lanes() == {old, new}


def test_a_lane_that_is_ill_goes_if_the_new_one_waits_for_its_devices() -> None:
    group = make_group()
    cluster = start(group)
    cluster.broken_lanes.add(group["status"]["lane"])
    new = change(group, "--dtype=float16")
    cluster.broken_lanes.add(new)
    reconcile(cluster, group)
    for pod in cluster.pods:
        if pod["metadata"]["labels"].get("pdserving.dev/lane") == new:
            pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "no GPU"}]
    reconcile(cluster, group)
    assert cluster.lanes() == {new}


def test_what_each_side_may_choose_freely_rolls_the_lane_in_place() -> None:
    group = make_group()
    cluster = start(group)
    old = group["status"]["lane"]
    assert change(group, "--max-num-seqs=16") == old
    reconcile(cluster, group)
    reconcile(cluster, group)
    assert cluster.lanes() == {old}


def test_a_suspended_group_keeps_its_objects_without_pods() -> None:
    group = make_group()
    cluster = start(group)
    group["spec"]["suspend"] = True
    objects = set(cluster.objects)
    for _ in range(2):
        reconcile(cluster, group)
    assert set(cluster.objects) == objects
    assert cluster.pods == []
    assert condition(group, "Ready")["reason"] == "Suspended"
    group["spec"]["suspend"] = False
    for _ in range(3):
        reconcile(cluster, group)
    assert condition(group, "Ready")["status"] == "True"


def test_replicas_of_an_autoscaler_are_not_touched() -> None:
    group = make_group(decode={})
    cluster = start(group)
    key = next(key for key in cluster.objects if key[0] == "StatefulSet" and "decode" in key[1])
    cluster.objects[key]["spec"]["replicas"] = 5
    cluster.objects[key]["metadata"]["generation"] += 1
    cluster.run()
    step = plan(group, cluster.observe(), NOW, DEFAULTS)
    assert step.apply == ()
    assert step.status["decode"]["summary"] == "5/5"
