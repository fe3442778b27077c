"""Equal events are one object with a count."""

from datetime import UTC, datetime, timedelta

from pdserving.core.actions import Event
from pdserving.kube.events import MAX_MESSAGE, Recorder
from pdserving.kube.kinds import EVENTS
from tests.support.fake_cluster import FakeCluster
from tests.support.harness import make_group

START = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time


def recorded(cluster: FakeCluster) -> list[dict[str, object]]:
    return [manifest for (plural, *_), manifest in cluster.objects.items() if plural == EVENTS.plural]


async def test_event_names_its_group_and_us() -> None:
    cluster = FakeCluster()
    await Recorder(cluster, now=Clock(), instance="pod-1").record(make_group(), Event("Normal", "Ready", "serving"))
    (event,) = recorded(cluster)
    assert event["involvedObject"]["uid"] == "group-uid"
    assert (event["type"], event["reason"], event["message"]) == ("Normal", "Ready", "serving")
    assert (event["reportingComponent"], event["reportingInstance"]) == ("pdserving-operator", "pod-1")


async def test_repeated_event_is_counted() -> None:
    cluster, clock = FakeCluster(), Clock()
    recorder = Recorder(cluster, now=clock)
    for _ in range(3):
        await recorder.record(make_group(), Event("Warning", "Unschedulable", "no node"))
        clock.time += timedelta(minutes=1)
    (event,) = recorded(cluster)
    assert event["count"] == 3
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-12-01T03:00:00Z", "2026-12-01T03:02:00Z")


async def test_other_message_is_another_event() -> None:
    cluster = FakeCluster()
    recorder = Recorder(cluster, now=Clock())
    for message in ("one", "two"):
        await recorder.record(make_group(), Event("Warning", "Rejected", message))
    assert {event["message"] for event in recorded(cluster)} == {"one", "two"}


async def test_message_fits_the_limit_of_the_api_server() -> None:
    cluster = FakeCluster()
    await Recorder(cluster, now=Clock()).record(make_group(), Event("Warning", "Rejected", "x" * 5000))
    assert len(recorded(cluster)[0]["message"]) == MAX_MESSAGE
