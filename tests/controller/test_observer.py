"""What is looked up beside the cache, how often, and that it is never in the way."""

from typing import Any

import pytest

from pdserving.controller.observer import EVENTS_AGE
from pdserving.kube.errors import ForbiddenError
from pdserving.kube.kinds import PODS, find_kind
from tests.support.harness import KEY, Harness, make_group

SETS = find_kind("apps/v1", "StatefulSet")


@pytest.fixture
async def harness() -> Harness:
    """A group with its objects and one prefill pod that does not start."""
    made = Harness()
    made.cluster.create(make_group())
    await made.settle()
    made.cluster.create(make_pod())
    made.seconds += EVENTS_AGE
    made.cluster.requests.clear()
    return made


def make_pod(**engine: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p-0",
            "namespace": "serving",
            "uid": "pod-uid",
            "labels": {"pdserving.dev/group": "llm", "pdserving.dev/role": "prefill"},
        },
        "status": {"containerStatuses": [{"name": "engine", "restartCount": 0, **engine}]},
    }


def make_event(name: str, reason: str, kind: str, subject: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "serving"},
        "type": "Warning",
        "reason": reason,
        "involvedObject": {"kind": kind, "name": subject},
    }


async def observe(harness: Harness) -> Any:
    return await harness.observer.observe(KEY, harness.group())


async def test_events_are_those_about_the_group(harness: Harness) -> None:
    harness.cluster.create(make_event("a", "FailedScheduling", "Pod", "p-0"))
    harness.cluster.create(make_event("b", "FailedScheduling", "Pod", "of-another-group"))
    harness.cluster.create(make_event("c", "Failed", "Node", "p-0"))
    observed = await observe(harness)
    assert [event["metadata"]["name"] for event in observed.events] == ["a"]


async def test_events_of_a_namespace_are_listed_once_for_many_looks(harness: Harness) -> None:
    for _ in range(5):
        await observe(harness)
    assert harness.cluster.requests == ["list Event"]
    harness.seconds += EVENTS_AGE
    await observe(harness)
    assert harness.cluster.requests == ["list Event"] * 2


async def test_log_of_a_restarted_engine_is_the_previous_one_and_read_once(harness: Harness) -> None:
    def restart(pod: dict[str, Any]) -> None:
        pod["status"]["containerStatuses"][0] |= {"restartCount": 1, "lastState": {"terminated": {"exitCode": 1}}}

    harness.cluster.edit(PODS, "serving", "p-0", restart)
    harness.cluster.logs["p-0"] = "ValueError: no such model"
    for _ in range(3):
        assert (await observe(harness)).logs == {"p-0": "ValueError: no such model"}
    assert [r for r in harness.cluster.requests if r.startswith("log")] == [
        "log Pod serving/p-0/engine previous=True lines=200"
    ]


async def test_log_of_an_engine_that_has_just_ended_is_the_current_one(harness: Harness) -> None:
    def end(pod: dict[str, Any]) -> None:
        pod["status"]["containerStatuses"][0] |= {"state": {"terminated": {"exitCode": 1}}}

    harness.cluster.edit(PODS, "serving", "p-0", end)
    await observe(harness)
    assert "log Pod serving/p-0/engine previous=False lines=200" in harness.cluster.requests


async def test_next_end_is_read_anew(harness: Harness) -> None:
    for restarts in (1, 2):

        def restart(pod: dict[str, Any], count: int = restarts) -> None:
            ended = {"lastState": {"terminated": {"exitCode": 1}}}
            pod["status"]["containerStatuses"][0] |= {"restartCount": count, **ended}

        harness.cluster.edit(PODS, "serving", "p-0", restart)
        harness.cluster.logs["p-0"] = f"end {restarts}"
        assert (await observe(harness)).logs == {"p-0": f"end {restarts}"}


async def test_what_cannot_be_had_is_done_without(harness: Harness) -> None:
    def end(pod: dict[str, Any]) -> None:
        pod["status"]["containerStatuses"][0] |= {"state": {"terminated": {"exitCode": 1}}}

    harness.cluster.edit(PODS, "serving", "p-0", end)
    harness.cluster.broken = lambda verb, *_: ForbiddenError("no") if verb in ("list", "log") else None
    observed = await observe(harness)
    assert (observed.events, observed.logs) == ((), {"p-0": ""})
    assert len(observed.pods) == 1


async def test_new_group_asks_for_nothing() -> None:
    harness = Harness()
    harness.cluster.create(make_group())
    await observe(harness)
    assert harness.cluster.requests == []
