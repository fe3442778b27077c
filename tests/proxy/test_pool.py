"""Which engines may be used: pods, lanes, ranks and epochs."""

import asyncio
from typing import Any

import msgspec
import pytest

from pdserving.proxy.discovery import parse_engine, parse_pod, parse_ranks
from pdserving.proxy.epochs import parse_query
from pdserving.proxy.pool import Epoch, Pool, Sighting
from tests.proxy.conftest import Launch, until

Pod = dict[str, Any]


def pod(role: str = "prefill", name: str = "g-prefill-aa-0", **changes: Any) -> Pod:
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "engine", "restartCount": 0, "containerID": "containerd://1"}],
    }
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"pdserving.dev/role": role, "pdserving.dev/lane": "aa"},
            "annotations": {"pdserving.dev/ranks": "1x2x1"},
            **changes.pop("metadata", {}),
        },
        "spec": {"containers": [{"name": "engine", "ports": [{"name": "http", "containerPort": 8000}]}]},
        "status": {**status, **changes},
    }


def sighting(role: str, name: str, lane: str = "aa", **changes: Any) -> Sighting:
    values = {"ready": True, "uid": name, "host": "127.0.0.1", "port": 1, "pod": name, **changes}
    return Sighting(role=role, lane=lane, **values)


async def pool_of(*sightings: Sighting) -> Pool:
    pool = Pool(asyncio.get_running_loop(), 1.0)
    pool.update(sightings)
    for engine in pool.prefills:
        pool.set_epoch(engine, Epoch({0: f"id-{engine.seen.pod}"}), 0.0)
    return pool


# ---- pods


def test_a_running_pod() -> None:
    seen = parse_pod(pod())
    assert seen is not None
    assert (seen.host, seen.port, seen.lane, seen.ranks, seen.ready) == ("10.0.0.1", 8000, "aa", (1, 2, 1), True)


@pytest.mark.parametrize("changes", [{"podIP": None}, {"phase": "Failed"}, {"phase": "Succeeded"}])
def test_pods_that_cannot_serve_are_not_engines(changes: Pod) -> None:
    assert parse_pod(pod(**changes)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"conditions": None},
        {"metadata": {"deletionTimestamp": "now"}},
    ],
)
def test_pods_that_should_not_serve_are_not_ready(changes: Pod) -> None:
    seen = parse_pod(pod(**changes))
    assert seen is not None
    assert not seen.ready


def test_a_restarted_container_is_another_incarnation() -> None:
    before, after = parse_pod(pod()), parse_pod(pod(containerStatuses=[{"name": "engine", "restartCount": 1}]))
    assert before is not None
    assert after is not None
    assert before.incarnation != after.incarnation
    assert before.identity == after.identity


@pytest.mark.parametrize("text", [None, "", "1x2", "1x2x3x4", "axbxc", "-1x1x1"])
def test_nonsense_ranks_are_unknown(text: str | None) -> None:
    assert parse_ranks(text) is None


@pytest.mark.parametrize("url", ["p:8000", "https://p:8000", "http://", "http://p:8000/v1", "http://p:port"])
def test_engine_addresses_of_another_form_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"engine address|Port could not be cast"):
        parse_engine(url, "prefill", 8998)


# ---- bootstrap


def query(ranks: dict[str, list[str]]) -> bytes:
    """``{"0": ["0/0", …]}``: by data-parallel rank the tensor/pipeline ranks that have registered."""
    entries = {}
    for dp, places in ranks.items():
        workers: dict[str, dict[str, str]] = {}
        for tp, pp in (place.split("/") for place in places):
            workers.setdefault(tp, {})[pp] = "tcp://10.0.0.1:1"
        entries[dp] = {"engine_id": f"id_dp{dp}", "worker_addr": workers}
    return msgspec.json.encode(entries)


def test_complete_bootstrap() -> None:
    epoch = parse_query(query({"0": ["0/0", "1/0"], "1": ["0/0", "1/0"]}), (2, 2, 1))
    assert epoch.engine_ids == {0: "id_dp0", 1: "id_dp1"}
    assert epoch.complete


def test_missing_ranks_are_named() -> None:
    epoch = parse_query(query({"0": ["0/0"]}), (2, 2, 1))
    assert epoch.missing == ("dp0/tp1/pp0", "dp1/tp0/pp0", "dp1/tp1/pp0")
    assert not epoch.complete


def test_empty_bootstrap_is_incomplete_even_if_nothing_is_expected() -> None:
    assert not parse_query(b"{}", None).complete


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"0": {}}', b'{"x": {"engine_id": "a", "worker_addr": {"0": {"0": "a"}}}}']
)
def test_nonsense_from_bootstrap_is_an_error(body: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, ValueError)):
        parse_query(body, None)


async def test_incomplete_prefill_is_not_used_and_says_why(launch: Launch) -> None:
    proxy = await launch()
    engine = proxy.app.pool.prefills[0]
    proxy.prefills[0].workers = {}
    proxy.app.gateway.epochs.recheck(engine)
    await until(lambda: engine.epoch is not None and not engine.epoch.complete)
    assert (await proxy.chat()).headers["x-pdserving-path"] == "local"
    assert not proxy.prefills[0].calls
    described = (await proxy.admin("/debug/pool"))["prefill"][0]
    assert described["missing_ranks"] == ["dp0/tp0/pp0"]
    ready = await proxy.client.get("/ready")
    assert "ranks missing: dp0/tp0/pp0" in ready.text
    assert "pdserving_proxy_missing_ranks" in (await proxy.client.get("/metrics")).text


async def test_every_data_parallel_rank_is_a_target_of_its_own() -> None:
    pool = await pool_of(sighting("prefill", "p"), sighting("decode", "d"))
    pool.set_epoch(pool.prefills[0], Epoch({0: "a_dp0", 1: "a_dp1"}), 0.0)
    headers = {target.header: target.engine_id for target in pool.lanes[0].prefills}
    assert headers == {b"x-data-parallel-rank: 0\r\n": "a_dp0", b"x-data-parallel-rank: 1\r\n": "a_dp1"}


# ---- the pool follows


async def test_an_epoch_ends_with_its_container() -> None:
    first = sighting("prefill", "p", incarnation="0/a")
    pool = await pool_of(first, sighting("decode", "d"))
    target = pool.lanes[0].prefills[0]
    pool.update([sighting("prefill", "p", incarnation="1/b"), sighting("decode", "d")])
    assert not target.valid
    assert pool.lanes[0].prefills == []


async def test_an_engine_ends_with_its_pod() -> None:
    pool = await pool_of(sighting("prefill", "p"), sighting("decode", "d"))
    target = pool.lanes[0].prefills[0]
    pool.update([sighting("decode", "d")])
    assert not target.valid
    assert not pool.prefills


async def test_a_pod_of_the_same_name_is_another_engine() -> None:
    pool = await pool_of(sighting("prefill", "p"), sighting("decode", "d"))
    old = pool.prefills[0]
    pool.update([sighting("prefill", "p", uid="new"), sighting("decode", "d")])
    assert pool.prefills[0] is not old
    assert pool.prefills[0].epoch is None


async def test_reading_the_same_ids_again_keeps_the_targets() -> None:
    pool = await pool_of(sighting("prefill", "p"), sighting("decode", "d"))
    target = pool.lanes[0].prefills[0]
    pool.set_epoch(pool.prefills[0], Epoch({0: "id-p"}), 1.0)
    assert target.valid


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_a_sidelined_engine_is_the_last_resort(role: str) -> None:
    pool = await pool_of(sighting(role, "a"), sighting(role, "b"))
    first, second = pool.engines.values()

    def used() -> list[str]:
        lane = pool.lanes[0]
        return [target.engine.seen.pod for target in (*lane.prefills, *lane.decodes)]

    pool.sideline(first, aside=True)
    assert used() == ["b"]
    pool.sideline(second, aside=True)
    assert used() == ["a", "b"]
    pool.sideline(first, aside=False)
    assert used() == ["a"]
    pool.distrust([first])
    assert used() == ["b"], "one that just failed is better than one that gives wrong answers"
    pool.distrust([])
    assert used() == ["a"]
