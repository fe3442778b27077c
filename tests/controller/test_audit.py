"""When the cache is compared with the API server, in virtual time."""

import asyncio

from pdserving.controller.audit import QUIET, RETRY, Audit
from pdserving.controller.cache import Cache, Key
from pdserving.kube.errors import NotFoundError, UnavailableError
from pdserving.kube.kinds import WATCHED
from tests.support.fake_cluster import FakeCluster
from tests.support.harness import KEY, make_group
from tests.support.virtual_time import run

PERIOD = 600


class Scene:
    def __init__(self, namespaces: tuple[str, ...] = ()) -> None:
        self.cluster, self.cache = FakeCluster(), Cache()
        self.changed: list[Key] = []
        self.audit = Audit(
            self.cluster, self.cache, namespaces=namespaces, period=PERIOD, on_changed=self.changed.append
        )

    @property
    def rounds(self) -> float:
        return len(self.cluster.requests) / len(WATCHED)

    async def pass_time(self, seconds: float) -> None:
        task = asyncio.create_task(self.audit.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.wait((task,))


def test_cache_is_filled_once_the_api_server_answers() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        scene.cluster.create(make_group())
        scene.cluster.broken = lambda *_: NotFoundError("no such kind", status=404)
        asyncio.get_running_loop().call_later(60, setattr, scene.cluster, "broken", lambda *_: None)
        await scene.audit.fill()
        return scene

    scene = run(scenario())
    assert scene.cache.group(KEY) is not None
    assert scene.changed == [KEY]


def test_every_period_has_one_listing_of_each_kind() -> None:
    async def scenario() -> float:
        scene = Scene()
        await scene.pass_time(10 * PERIOD * 1.11)
        return scene.rounds

    assert 9 <= run(scenario()) <= 13


def test_listing_of_kopf_is_followed_by_one_comparison_when_it_is_over() -> None:
    async def scenario() -> tuple[float, float]:
        scene = Scene()
        for second in range(10):
            asyncio.get_running_loop().call_later(second, scene.audit.suspect)
        await scene.pass_time(9 + QUIET / 2)
        during = scene.rounds
        await scene.pass_time(3 * QUIET)
        return during, scene.rounds

    assert run(scenario()) == (0, 1)


def test_comparison_that_failed_is_made_again_soon() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        scene.cluster.create(make_group())
        scene.cluster.broken = lambda *_: UnavailableError("down")
        scene.audit.suspect()
        asyncio.get_running_loop().call_later(30, setattr, scene.cluster, "broken", lambda *_: None)
        await scene.pass_time(30 + 2 * (RETRY + QUIET))
        return scene

    assert run(scenario()).changed == [KEY]


async def test_operator_of_some_namespaces_lists_only_these() -> None:
    scene = Scene(("elsewhere",))
    scene.cluster.create(make_group())
    assert await scene.audit.compare() == set()
    assert scene.cache.keys() == []
