"""The queue in virtual time: who gets which key, and when."""

import asyncio

import pytest

from pdserving.controller.workqueue import LAST_RETRY, WorkQueue
from tests.support.virtual_time import now, run


def make_queue(**options: object) -> WorkQueue[str]:
    return WorkQueue(clock=now, spread=lambda: 1.0, **options)


async def drain(queue: WorkQueue[str], until: float) -> list[tuple[float, str]]:
    """What one instant worker gets, with the seconds since now."""
    start, got = now(), []
    try:
        async with asyncio.timeout(until):
            while True:
                key = await queue.get()
                got.append((round(now() - start, 3), key))
                queue.done(key)
    except TimeoutError:
        return got


def test_key_added_often_is_looked_at_once() -> None:
    async def scenario() -> list[tuple[float, str]]:
        queue = make_queue()
        for _ in range(5):
            queue.add("a")
        queue.add("b")
        return await drain(queue, 10)

    assert run(scenario()) == [(0, "a"), (0, "b")]


def test_earliest_of_several_wishes_counts() -> None:
    async def scenario() -> list[tuple[float, str]]:
        queue = make_queue()
        queue.add("a", 600)
        queue.add("a", 5)
        queue.add("a", 60)
        return await drain(queue, 1000)

    assert run(scenario()) == [(5, "a")]


def test_keys_come_in_the_order_in_which_they_are_due() -> None:
    async def scenario() -> list[tuple[float, str]]:
        queue = make_queue()
        queue.add("late", 3)
        queue.add("soon", 1)
        queue.add("now")
        return await drain(queue, 10)

    assert run(scenario()) == [(0, "now"), (1, "soon"), (3, "late")]


def test_key_in_work_is_nobody_elses_and_runs_once_more() -> None:
    async def scenario() -> None:
        queue = make_queue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("a")
        assert await drain(queue, 10) == []
        queue.done("a")
        assert await drain(queue, 10) == [(0, "a")]

    run(scenario())


def test_waiting_worker_wakes_for_a_key_that_is_due_earlier() -> None:
    async def scenario() -> list[tuple[float, str]]:
        queue = make_queue()
        queue.add("late", 100)
        asyncio.get_running_loop().call_later(7, queue.add, "new")
        return await drain(queue, 50)

    assert run(scenario()) == [(7, "new")]


def test_every_waiting_worker_gets_a_key() -> None:
    async def scenario() -> set[str]:
        queue = make_queue()
        workers = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(1)
        for key in "abc":
            queue.add(key)
        return {await worker for worker in workers}

    assert run(scenario()) == {"a", "b", "c"}


def test_retries_back_off_to_a_limit_and_start_anew_after_a_success() -> None:
    async def scenario() -> tuple[list[float], float]:
        queue = make_queue()
        delays = [queue.retry("a") for _ in range(12)]
        queue.forget_failures("a")
        return delays, queue.retry("a")

    delays, after_success = run(scenario())
    assert delays[:4] == [1, 2, 4, 8]
    assert delays[-1] == LAST_RETRY
    assert after_success == 1


def test_change_does_not_wait_for_the_backoff() -> None:
    async def scenario() -> list[tuple[float, str]]:
        queue = make_queue()
        queue.retry("a")
        queue.add("a")
        return await drain(queue, 100)

    assert run(scenario()) == [(0, "a")]


def test_dropped_key_does_not_come_back() -> None:
    async def scenario() -> list[tuple[float, str]]:
        queue = make_queue()
        queue.add("a", 5)
        queue.drop("a")
        return await drain(queue, 100)

    assert run(scenario()) == []


def test_depth_counts_what_is_due_and_waits() -> None:
    async def scenario() -> list[int]:
        queue = make_queue()
        queue.add("a")
        queue.add("b")
        queue.add("later", 60)
        depths = [queue.depth]
        await queue.get()
        return [*depths, queue.depth]

    assert run(scenario()) == [2, 1]


def test_latency_is_told_from_due_to_worker() -> None:
    async def scenario() -> list[float]:
        waits: list[float] = []
        queue = make_queue(on_wait=waits.append)
        queue.add("a", 2)
        await asyncio.sleep(5)
        await queue.get()
        return waits

    assert run(scenario()) == [pytest.approx(3)]


def test_longest_look_is_seen() -> None:
    async def scenario() -> tuple[float, float]:
        queue = make_queue()
        idle = queue.longest_active
        queue.add("a")
        await queue.get()
        await asyncio.sleep(30)
        return idle, queue.longest_active

    assert run(scenario()) == (0, pytest.approx(30))
