"""Which pair gets the next canary, what its outcomes make of the pair, and what that costs at most."""

import asyncio
import itertools
from typing import Any

import pytest

from pdserving.api import conditions as c
from pdserving.api.labels import PAIR_FAILED, PAIR_UNKNOWN, PAIR_VERIFIED
from pdserving.proxy import verification
from pdserving.proxy.canary_engine import Outcome
from pdserving.proxy.pool import Engine, Epoch, Sighting
from pdserving.proxy.transfers import NOT_MOVING
from pdserving.proxy.verification import (
    BURST,
    FAILED_SECONDS,
    MAX_PAIRS,
    MINUTE,
    Verification,
    find_suspects,
    list_pairs,
)
from tests.proxy.conftest import PATIENCE, Launch, Proxy, until

INTERVAL = 600.0


def verify(proxy: Proxy) -> Verification:
    return Verification(proxy.app.gateway, INTERVAL)


async def exhaust(canaries: Verification) -> list[Outcome]:
    """All that is due now and allowed."""
    outcomes = []
    while outcome := await canaries.step():
        outcomes.append(outcome)
    return outcomes


def states(canaries: Verification) -> list[str]:
    return [pair["state"] for pair in canaries.describe()]


async def test_every_pair_gets_a_canary_and_each_engine_is_in_one_soon(launch: Launch) -> None:
    proxy = await launch(prefills=2, decodes=3)
    canaries = verify(proxy)
    for _ in range(3):
        await canaries.step()
    proven = [pair for pair in canaries.describe() if pair["state"] == PAIR_VERIFIED]
    assert len({pair["prefill"] for pair in proven}) == 2
    assert len({pair["decode"] for pair in proven}) == 3
    await exhaust(canaries)
    assert states(canaries) == [PAIR_VERIFIED] * 6
    assert proxy.app.gateway.metrics.canaries.values == {(c.VERIFIED,): 6}


async def test_at_most_a_burst_in_any_minute(launch: Launch) -> None:
    proxy = await launch(prefills=4, decodes=4)
    canaries = verify(proxy)
    assert len(await exhaust(canaries)) == BURST
    proxy.skip(MINUTE - 5)
    assert await exhaust(canaries) == []
    proxy.skip(6)
    assert len(await exhaust(canaries)) == BURST


async def test_a_proven_pair_rests_for_an_interval(launch: Launch) -> None:
    proxy = await launch()
    canaries = verify(proxy)
    assert len(await exhaust(canaries)) == 1
    proxy.skip(INTERVAL / 2)
    assert await exhaust(canaries) == []
    proxy.skip(INTERVAL)
    assert len(await exhaust(canaries)) == 1


async def test_with_many_pairs_each_engine_is_asked_once_an_interval(launch: Launch) -> None:
    proxy = await launch(prefills=2, decodes=2)
    canaries = verify(proxy)
    assert len(await exhaust(canaries)) == 4
    proxy.skip(INTERVAL * 2)
    assert len(await exhaust(canaries)) == 2


async def test_one_failure_is_repeated_and_two_count(launch: Launch) -> None:
    proxy = await launch()
    canaries = verify(proxy)
    proxy.decodes[0].moves = False
    await canaries.step()
    assert states(canaries) == [PAIR_UNKNOWN]
    await canaries.step()
    (pair,) = canaries.describe()
    assert (pair["state"], pair["reason"]) == (PAIR_FAILED, c.NO_KV_MOVED)
    assert await exhaust(canaries) == []


async def test_a_proven_pair_stays_so_with_one_failure(launch: Launch) -> None:
    proxy = await launch()
    canaries = verify(proxy)
    await canaries.step()
    proxy.skip(INTERVAL * 2)
    proxy.decodes[0].moves = False
    await canaries.step()
    assert states(canaries) == [PAIR_VERIFIED]
    proxy.decodes[0].moves = True
    assert [outcome.reason for outcome in await exhaust(canaries)] == [c.VERIFIED]


async def test_a_failed_pair_is_asked_again_and_heals(launch: Launch) -> None:
    proxy = await launch()
    canaries = verify(proxy)
    proxy.decodes[0].moves = False
    await exhaust(canaries)
    proxy.decodes[0].moves = True
    proxy.skip(FAILED_SECONDS + 1)
    await exhaust(canaries)
    assert states(canaries) == [PAIR_VERIFIED]


async def test_what_was_proven_ends_with_a_restart(launch: Launch) -> None:
    proxy = await launch()
    canaries = verify(proxy)
    await exhaust(canaries)
    proxy.prefills[0].new_engine_id()
    (prefill,) = proxy.app.pool.prefills
    proxy.app.gateway.epochs.recheck(prefill)
    await until(lambda: prefill.targets[0].engine_id == proxy.prefills[0].engine_id)
    assert canaries.describe() == []
    assert [outcome.reason for outcome in await exhaust(canaries)] == [c.VERIFIED]


async def test_a_pair_is_remembered_while_its_engine_is_not_ready(launch: Launch) -> None:
    proxy = await launch()
    canaries = verify(proxy)
    await exhaust(canaries)
    (decode,) = proxy.app.pool.decodes
    for ready in (False, True):
        decode.seen = Sighting(**{**as_fields(decode.seen), "ready": ready})
        await exhaust(canaries)
    assert states(canaries) == [PAIR_VERIFIED]
    assert len(proxy.prefills[0].calls) == 1


def as_fields(seen: Sighting) -> dict[str, Any]:
    return {name: getattr(seen, name) for name in Sighting.__slots__}


async def test_counters_of_real_traffic_that_accuse_have_a_canary_decide(launch: Launch) -> None:
    proxy = await launch()
    canaries = verify(proxy)
    await exhaust(canaries)
    (decode,) = proxy.app.pool.decodes
    flow = proxy.app.gateway.transfers.flow(decode)
    flow.state = NOT_MOVING
    assert [outcome.reason for outcome in await exhaust(canaries)] == [c.VERIFIED]
    assert flow.state != NOT_MOVING
    flow.state, proxy.decodes[0].moves = NOT_MOVING, False
    await exhaust(canaries)
    assert states(canaries) == [PAIR_FAILED]


async def serving(proxy: Proxy, role: str) -> set[str]:
    """Who answers ten requests."""
    return {(await proxy.chat()).headers[f"x-pdserving-{role}"] for _ in range(10)}


async def test_an_engine_that_failed_with_all_is_avoided_until_a_canary_heals_it(launch: Launch) -> None:
    proxy = await launch(prefills=2, decodes=2)
    canaries = verify(proxy)
    bad, good = proxy.decodes
    bad.moves = False
    await exhaust(canaries)
    proxy.skip(MINUTE)
    await exhaust(canaries)
    assert sorted(states(canaries)) == [PAIR_FAILED] * 2 + [PAIR_VERIFIED] * 2
    assert await serving(proxy, "decode") == {f"127.0.0.1:{good.port}"}
    assert len(await serving(proxy, "prefill")) == 2
    bad.moves = True
    proxy.skip(MINUTE)
    await exhaust(canaries)
    assert len(await serving(proxy, "decode")) == 2


async def test_a_pair_that_failed_is_avoided_and_its_engines_are_not(launch: Launch) -> None:
    proxy = await launch(prefills=2, decodes=2)
    canaries = verify(proxy)
    await exhaust(canaries)
    accused = next(iter(canaries._records))
    canaries._records[accused].state = PAIR_FAILED
    await canaries.step()
    served = set()
    async with asyncio.timeout(PATIENCE):
        while len(served) < 3:
            answer = await proxy.chat()
            served.add((answer.headers["x-pdserving-prefill"], answer.headers["x-pdserving-decode"]))
    assert (accused[0].seen.pod, accused[1].seen.pod) not in served


async def test_prompts_of_canaries_accuse_nobody(launch: Launch) -> None:
    proxy = await launch()
    canaries = verify(proxy)
    await exhaust(canaries)
    (decode,) = proxy.app.pool.decodes
    proxy.app.gateway.transfers.asked(decode, 500)
    await proxy.app.gateway.transfers.read_all()
    assert proxy.app.gateway.transfers.flow(decode).state != NOT_MOVING


async def test_a_busy_engine_costs_no_canary_and_is_asked_later(launch: Launch) -> None:
    proxy = await launch()
    canaries = verify(proxy)
    proxy.decodes[0].waiting = 1
    assert [outcome.reason for outcome in await exhaust(canaries)] == [c.ENGINES_BUSY]
    (pair,) = canaries.describe()
    assert (pair["state"], pair["reason"]) == (PAIR_UNKNOWN, c.ENGINES_BUSY)
    proxy.decodes[0].waiting = 0
    proxy.skip(10)
    assert [outcome.reason for outcome in await exhaust(canaries)] == [c.VERIFIED]


async def test_a_proxy_that_drains_asks_nobody(launch: Launch) -> None:
    proxy = await launch()
    proxy.app.gateway.draining = True
    assert await verify(proxy).step() is None
    proxy.app.gateway.draining = False


async def test_ranks_of_prefill_take_turns(launch: Launch) -> None:
    proxy = await launch()
    canaries = verify(proxy)
    (prefill,) = proxy.app.pool.prefills
    proxy.prefills[0].other_ids = ["another"]
    proxy.prefills[0].fabric.holders["another"] = proxy.prefills[0]
    proxy.app.gateway.epochs.recheck(prefill)
    await until(lambda: len(prefill.targets) == 2)
    await exhaust(canaries)
    proxy.skip(INTERVAL * 2)
    await exhaust(canaries)
    assert [call.headers["x-data-parallel-rank"] for call in proxy.prefills[0].calls] == ["0", "1"]
    assert states(canaries) == [PAIR_VERIFIED]


async def test_it_runs_by_itself_where_an_interval_is_set(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "PAUSE", 0.0)
    proxy = await launch(verify_interval=INTERVAL)
    await until(lambda: proxy.app.gateway.metrics.canaries.values)
    (pair,) = (await proxy.admin("/debug/pool"))["pairs"]
    assert pair["state"] == PAIR_VERIFIED
    gauge = f'pdserving_proxy_pair_verified{{prefill="{pair["prefill"]}",decode="{pair["decode"]}"}} 1'
    assert gauge in (await proxy.client.get("/metrics")).text


async def test_none_run_by_default(launch: Launch) -> None:
    proxy = await launch()
    assert proxy.app.gateway.verification is None
    assert "pairs" not in await proxy.admin("/debug/pool")


class Stub(Engine):
    """As much of an engine as pairing looks at."""

    def __init__(self, role: str, number: int, lane: str = "x") -> None:
        self.seen = Sighting(role, f"{role}-{number:03}", str(number), "h", 1, lane, ready=True)
        self.epoch = Epoch({0: "id"})


@pytest.mark.parametrize(("prefills", "decodes"), [*itertools.product((1, 2, 3, 4, 7), repeat=2)])
def test_all_pairs_of_a_small_group(prefills: int, decodes: int) -> None:
    engines = [Stub("prefill", n) for n in range(prefills)] + [Stub("decode", n) for n in range(decodes)]
    pairs = list_pairs(engines)
    assert len(pairs) == len(set(pairs)) == prefills * decodes
    first = pairs[: max(prefills, decodes)]
    assert {engine for pair in first for engine in pair} == set(engines)


def test_a_large_group_is_bounded_and_every_engine_occurs() -> None:
    engines = [Stub("prefill", n) for n in range(100)] + [Stub("decode", n) for n in range(256)]
    pairs = list_pairs(engines)
    assert len(pairs) <= MAX_PAIRS
    assert {engine for pair in pairs for engine in pair} == set(engines)


def test_suspect_is_who_failed_with_everybody() -> None:
    p1, p2, d1, d2 = Stub("prefill", 1), Stub("prefill", 2), Stub("decode", 1), Stub("decode", 2)
    pairs = [(p1, d1), (p1, d2), (p2, d1), (p2, d2)]
    assert find_suspects(pairs, pairs[:1]) == set()
    assert find_suspects(pairs, pairs[:2]) == {p1}
    assert find_suspects(pairs, pairs[::2]) == {d1}
    assert find_suspects(pairs, pairs) == {p1, p2, d1, d2}


def test_engines_of_different_lanes_are_no_pair() -> None:
    assert list_pairs([Stub("prefill", 0, "x"), Stub("decode", 0, "y")]) == []
