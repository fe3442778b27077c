"""Two replicas and a Lease in virtual time: never two active ones, and not for long none."""

import asyncio
import copy
from typing import Any

import pytest

from pdserving.kube.errors import ConflictError, NotFoundError, UnreachableError
from pdserving.kube.kinds import Kind
from pdserving.kube.lease import DEFAULT_TIMING, Lease, LeaseLostError, lead
from tests.support.virtual_time import now, run


class Store:
    """One lease with optimistic locking."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.hanging = False

    async def request(self, verb: str, kind: Kind, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        await asyncio.sleep(3600 if self.hanging else 0.01)
        if self.down:
            raise UnreachableError("down")
        if verb == "get":
            if self.lease is None:
                raise NotFoundError("none", status=404)
            return copy.deepcopy(self.lease)
        assert body is not None
        expected = None if verb == "create" else body["metadata"]["resourceVersion"]
        if expected != (self.lease and self.lease["metadata"]["resourceVersion"]):
            raise ConflictError("changed", status=409)
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.lease


def make_lease(store: Store, identity: str) -> Lease:
    return Lease(store, namespace="ns", name="pdserving", identity=identity, clock=now)


class Replica:
    """Notes when it was active."""

    def __init__(self, store: Store, identity: str) -> None:
        self.lease = make_lease(store, identity)
        self.identity = identity
        self.started: float | None = None
        self.ended: float | None = None
        self.stop = asyncio.Event()

    async def run(self) -> None:
        await lead(self.lease, self._work)

    async def _work(self) -> None:
        self.started = now()
        try:
            await self.stop.wait()
        finally:
            self.ended = now()


def test_first_one_works_and_the_second_waits() -> None:
    async def scenario() -> tuple[Replica, Replica]:
        store = Store()
        first, second = Replica(store, "first"), Replica(store, "second")
        tasks = [asyncio.create_task(replica.run()) for replica in (first, second)]
        await asyncio.sleep(300)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return first, second

    first, second = run(scenario())
    assert first.started is not None
    assert second.started is None


def test_regular_end_hands_over_within_one_retry() -> None:
    async def scenario() -> float:
        store = Store()
        first, second = Replica(store, "first"), Replica(store, "second")
        tasks = [asyncio.create_task(replica.run()) for replica in (first, second)]
        await asyncio.sleep(60)
        first.stop.set()
        await tasks[0]
        await asyncio.sleep(10)
        tasks[1].cancel()
        await asyncio.wait(tasks)
        assert first.ended is not None
        assert second.started is not None
        return second.started - first.ended

    assert 0 <= run(scenario()) <= DEFAULT_TIMING.retry + 1


def test_dead_holder_is_replaced_after_the_duration() -> None:
    async def scenario() -> float:
        store = Store()
        await make_lease(store, "dead").acquire()
        died = now()
        second = Replica(store, "second")
        task = asyncio.create_task(second.run())
        await asyncio.sleep(60)
        task.cancel()
        await asyncio.wait((task,))
        assert second.started is not None
        return second.started - died

    assert 0 <= run(scenario()) - DEFAULT_TIMING.duration <= DEFAULT_TIMING.retry + 1


@pytest.mark.parametrize("trouble", ["down", "hanging"])
def test_holder_cut_off_stops_before_another_may_start(trouble: str) -> None:
    async def scenario() -> float:
        store = Store()
        first = Replica(store, "first")
        task = asyncio.create_task(first.run())
        await asyncio.sleep(60)
        cut_off = now()
        setattr(store, trouble, True)
        with pytest.raises(LeaseLostError):
            await task
        assert first.ended is not None
        return first.ended - cut_off

    assert run(scenario()) < DEFAULT_TIMING.duration


def test_short_outage_is_no_loss() -> None:
    async def scenario() -> bool:
        store = Store()
        first = Replica(store, "first")
        task = asyncio.create_task(first.run())
        await asyncio.sleep(60)
        store.down = True
        await asyncio.sleep(5)
        store.down = False
        await asyncio.sleep(60)
        alive = first.ended is None
        task.cancel()
        await asyncio.wait((task,))
        return alive

    assert run(scenario())


def test_stolen_lease_ends_the_work() -> None:
    async def scenario() -> None:
        store = Store()
        first = Replica(store, "first")
        task = asyncio.create_task(first.run())
        await asyncio.sleep(60)
        assert store.lease is not None
        store.lease["spec"] |= {"holderIdentity": "thief", "renewTime": "whenever"}
        with pytest.raises(LeaseLostError, match="thief"):
            await task
        assert store.lease["spec"]["holderIdentity"] == "thief", "what is not ours is not released"

    run(scenario())


def test_two_that_claim_at_once_are_told_apart() -> None:
    async def scenario() -> list[Replica]:
        store = Store()
        replicas = [Replica(store, name) for name in ("a", "b", "c")]
        tasks = [asyncio.create_task(replica.run()) for replica in replicas]
        await asyncio.sleep(100)
        active = [replica for replica in replicas if replica.started]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return active

    assert len(run(scenario())) == 1


def test_failure_of_the_work_is_the_end_and_releases_the_lease() -> None:
    async def scenario() -> str:
        store = Store()

        async def work() -> None:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await lead(make_lease(store, "first"), work)
        assert store.lease is not None
        return str(store.lease["spec"]["holderIdentity"])

    assert run(scenario()) == ""
