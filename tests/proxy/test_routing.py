"""Which of the usable engines a request gets, and the reason that is counted."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pdserving.proxy.pool import Pool, Target
from pdserving.proxy.routing import RAMP_SECONDS, RAMP_START, choose, choose_decode, choose_decode_in, choose_prefill
from tests.proxy import engine as faults
from tests.proxy.conftest import Launch, Proxy
from tests.proxy.test_pool import pool_of, sighting


def pick(targets: Sequence[Target], now: float) -> Target:
    chosen = choose(targets, now)
    assert chosen is not None
    return chosen[0]


async def test_engines_of_different_lanes_are_never_paired() -> None:
    pool = await pool_of(
        sighting("prefill", "p-old", "old"), sighting("decode", "d-old", "old"), sighting("prefill", "p-new", "new")
    )
    for _ in range(20):
        chosen = choose_prefill(pool.lanes, 0.0, ())
        assert chosen is not None
        assert chosen[0].engine.seen.lane == "old"


async def test_the_lighter_of_two_is_chosen() -> None:
    pool = await pool_of(sighting("decode", "a"), sighting("decode", "b"))
    heavy, light = pool.lanes[0].decodes
    heavy.enter(1000)
    assert all(pick(pool.lanes[0].decodes, 1e9) is light for _ in range(20))


async def test_ties_are_broken_at_random() -> None:
    pool = await pool_of(*(sighting("decode", name) for name in "abc"))
    assert len({pick(pool.lanes[0].decodes, 1e9) for _ in range(200)}) == 3


async def test_a_fresh_engine_is_ramped_up() -> None:
    pool = await pool_of(sighting("decode", "old"), sighting("decode", "new"))
    old, new = pool.lanes[0].decodes
    old.enter(500)
    new.enter(200)
    new.since = 1000.0
    assert pick([old, new], 1001.0) is old, "200 tokens are a lot for an engine of one second"
    assert pick([old, new], 1020.0) is new


# ---- fresh engines


@given(
    age=st.floats(0, RAMP_SECONDS * 2),
    before=st.integers(0, 100_000),
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=200),
)
async def test_a_fresh_engine_never_gets_more_than_its_share(age: float, before: int, sizes: list[int]) -> None:
    pool = await pool_of(sighting("decode", "old"), sighting("decode", "new"))
    old, new = pool.lanes[0].decodes
    new.since = 1000.0
    old.enter(before)
    share = min(max(RAMP_START, age / RAMP_SECONDS), 1.0)
    for size in sizes:
        pick([old, new], 1000.0 + age).enter(size)
        assert new.load <= share * old.load + max(sizes)


async def test_what_makes_an_engine_fresh() -> None:
    now = 1000.0
    pool = Pool(asyncio.get_running_loop(), 1.0, lambda: now)

    def since(name: str) -> float:
        return next(engine.targets[0].since for engine in pool.decodes if engine.seen.pod == name)

    first = sighting("decode", "first", incarnation="0/a")
    pool.update([first])
    assert since("first") == 0.0, "there is nobody to take its load meanwhile"
    second = sighting("decode", "second")
    pool.update([first, second])
    assert (since("first"), since("second")) == (0.0, 1000.0), "seen when it was ready already"
    now = 2000.0
    pool.update([first, sighting("decode", "second", ready=False)])
    pool.update([first, second])
    assert since("second") == 2000.0, "ready again"
    pool.update([sighting("decode", "first", incarnation="1/b"), second])
    assert since("first") == 2000.0, "restarted between two looks"


# ---- reasons


def reasons(proxy: Proxy) -> dict[tuple[str, ...], int]:
    return proxy.app.gateway.metrics.choices.values


async def test_the_only_engine() -> None:
    pool = await pool_of(sighting("prefill", "p"), sighting("decode", "d"))
    for chosen in (
        choose_prefill(pool.lanes, 1e9, ()),
        choose_decode(pool.lanes, 1e9, ()),
        choose_decode_in(pool.lanes, "aa", 1e9, (), ()),
    ):
        assert chosen is not None
        assert chosen[1] == "only"


async def test_after_a_failure_the_reason_is_the_retry() -> None:
    pool = await pool_of(*(sighting(role, f"{role}-{n}") for role in ("prefill", "decode") for n in range(3)))
    prefill, decode = pool.prefills[0], pool.decodes[0]
    for chosen in (
        choose_prefill(pool.lanes, 1e9, (prefill,)),
        choose_decode(pool.lanes, 1e9, (decode,)),
        choose_decode_in(pool.lanes, "aa", 1e9, (decode,), ()),
    ):
        assert chosen is not None
        assert chosen[1] == "retry"
        assert chosen[0].engine not in {prefill, decode}


async def test_an_engine_to_avoid_is_the_last_choice() -> None:
    pool = await pool_of(*(sighting("decode", name) for name in "abc"))
    a, b, c = pool.decodes
    chosen = choose_decode_in(pool.lanes, "aa", 1e9, (), (a, b))
    assert chosen is not None
    assert (chosen[0].engine, chosen[1]) == (c, "only")
    chosen = choose_decode_in(pool.lanes, "aa", 1e9, (c,), (a, b))
    assert chosen is not None
    assert chosen[1] == "quarantined"
    assert choose_decode_in(pool.lanes, "aa", 1e9, (a, b, c), (a, b)) is None


async def test_choices_are_counted(launch: Launch) -> None:
    proxy = await launch(prefills=2, decodes=1)
    await proxy.chat()
    assert reasons(proxy) == {("prefill", "least_loaded"): 1, ("decode", "only"): 1}
    broken, other = proxy.app.pool.prefills
    other.targets[0].enter(1_000_000)
    next(each for each in proxy.prefills if each.port == broken.seen.port).faults = [faults.reset]
    await proxy.chat()
    page = (await proxy.client.get("/metrics")).text
    assert 'pdserving_proxy_choices_total{role="prefill",reason="retry"} 1' in page
