"""What the outcome of a look means for the next one, in virtual time."""

import asyncio
from itertools import pairwise

from prometheus_client import CollectorRegistry

from pdserving.controller.cache import Key
from pdserving.controller.metrics import Metrics
from pdserving.controller.reconciler import Result
from pdserving.controller.workers import Workers
from pdserving.controller.workqueue import WorkQueue
from pdserving.kube.errors import UnavailableError
from tests.support.harness import KEY
from tests.support.virtual_time import now, run


class FakeReconciler:
    """Gives or raises in turn; then all is settled."""

    def __init__(self, *answers: Result | Exception) -> None:
        self.answers = list(answers)
        self.looks: list[float] = []

    async def reconcile(self, _: Key) -> Result:
        self.looks.append(now() - 1000)
        answer = self.answers.pop(0) if self.answers else Result("settled")
        if isinstance(answer, Exception):
            raise answer
        return answer


def look_times(*answers: Result | Exception, within: float = 100, resync: float = 600) -> list[float]:
    async def scenario() -> list[float]:
        queue: WorkQueue[Key] = WorkQueue(clock=now, spread=lambda: 1.0)
        reconciler = FakeReconciler(*answers)
        workers = Workers(queue, reconciler, Metrics(CollectorRegistry()), resync=resync)  # type: ignore[arg-type]
        queue.add(KEY)
        task = asyncio.create_task(workers.work())
        await asyncio.sleep(within)
        task.cancel()
        await asyncio.wait((task,))
        return [round(look, 3) for look in reconciler.looks]

    return run(scenario())


def test_settled_group_is_looked_at_each_resync() -> None:
    looks = look_times(within=6000)
    assert 8 <= len(looks) <= 12
    assert len({round(b - a) for a, b in pairwise(looks)}) > 1, "with jitter"


def test_changed_group_is_looked_at_again_at_once() -> None:
    assert look_times(Result("changed", 0.0)) == [0, 0]


def test_open_question_is_asked_again() -> None:
    assert look_times(Result("settled", 15.0)) == [0, 15]


def test_failures_back_off_whatever_they_are() -> None:
    looks = look_times(UnavailableError("down"), ValueError("a defect"), Result("failed"))
    assert looks == [0, 1, 3, 7]


def test_group_that_is_gone_is_not_looked_at_again() -> None:
    assert look_times(Result("gone"), within=6000) == [0]
