"""What a path carried at most is never less than what it did carry, however its transfers lay in time."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdserving.proxy.pool import Engine, Sighting
from pdserving.proxy.rates import ENOUGH, MEASURES, Measure, Rates, measure
from pdserving.proxy.readings import Reading

MIB = 1 << 20
SEEN = Sighting("prefill", "p", "p-uid", "127.0.0.1", 1, "lane", ready=True, incarnation="1")


def sent(count: float, size: float, seconds: float, **more: float) -> Reading:
    return Reading(0, 0, **more, sent=count, sent_bytes=size, sent_seconds=seconds)


NOTHING = sent(0, 0, 0)


@pytest.fixture
def make_engine() -> Iterator[Callable[[str], Engine]]:
    loop = asyncio.new_event_loop()
    yield lambda role: Engine(replace(SEEN, role=role), loop, 1.0)
    loop.close()


@pytest.fixture
def prefill(make_engine: Callable[[str], Engine]) -> Engine:
    return make_engine("prefill")


@pytest.fixture
def decode(make_engine: Callable[[str], Engine]) -> Engine:
    return make_engine("decode")


def meet(rates: Rates, prefill: Engine, decode: Engine) -> None:
    """The first canary between the two."""
    rates.take(prefill, decode, NOTHING, sent(1, 100 * MIB, 0.5))


def test_one_transfer_is_told_with_its_rate_and_what_the_path_can_have_carried() -> None:
    measured = measure(NOTHING, sent(1, 50 * MIB, 0.015))
    assert measured is not None
    assert measured.rate == pytest.approx(50 * MIB / 0.015)
    assert measured.ceiling == pytest.approx(50 * MIB / 0.010)


def test_what_took_no_longer_than_its_setup_is_told_with_a_finite_rate() -> None:
    assert measure(NOTHING, sent(1, ENOUGH, 0.002)) == Measure(rate=ENOUGH / 0.002, ceiling=ENOUGH / 0.001)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (NOTHING, sent(1, ENOUGH - 1, 0.1)),
        (NOTHING, NOTHING),
        (sent(9, 900 * MIB, 9.0), sent(1, 100 * MIB, 0.1)),
        (Reading(0, 0), Reading(0, 0)),
        (NOTHING, sent(1, 100 * MIB, 0.0)),
    ],
)
def test_too_little_and_counters_that_began_anew_are_no_measure(before: Reading, after: Reading) -> None:
    assert measure(before, after) is None


@given(
    capacity=st.floats(1e8, 1e11),
    sizes=st.lists(st.integers(ENOUGH, 64 * ENOUGH), min_size=1, max_size=8),
    rounds=st.integers(1, 4),
)
def test_the_ceiling_is_never_below_the_path(capacity: float, sizes: list[int], rounds: int) -> None:
    """A round's transfers begin together and share the path evenly; rounds follow one another."""
    carried = [sum(min(other, size) for other in sizes) for size in sizes]  # by the path when each of them ends
    seconds = sum(carried) / capacity
    measured = measure(NOTHING, sent(rounds * len(sizes), rounds * sum(sizes), rounds * seconds))
    assert measured is not None
    assert measured.ceiling >= min(capacity, sum(sizes) / 0.001) * 0.999


def test_the_best_of_the_last_counts_once_there_are_enough(prefill: Engine, decode: Engine) -> None:
    rates = Rates()
    meet(rates, prefill, decode)
    for number, seconds in enumerate((0.105, 0.055, 0.105, 0.105)):
        assert rates.describe(prefill) is None, number
        rates.take(prefill, decode, NOTHING, sent(1, 100 * MIB, seconds))
    assert rates.describe(prefill) == {"rate": round(100 * MIB / 0.055), "ceiling": round(100 * MIB / 0.050)}
    for _ in range(MEASURES):
        rates.take(prefill, decode, NOTHING, sent(1, 100 * MIB, 0.105))
    assert rates.describe(prefill) == {"rate": round(100 * MIB / 0.105), "ceiling": round(100 * MIB / 0.100)}


def test_first_contacts_are_not_measured(make_engine: Callable[[str], Engine], prefill: Engine, decode: Engine) -> None:
    rates = Rates()
    for _ in range(2 * MEASURES):
        meet(rates, prefill, make_engine("decode"))
    for start in range(2 * MEASURES):
        decode.seen = replace(decode.seen, incarnation=str(start))
        meet(rates, prefill, decode)
    assert rates.describe(prefill) is None


def test_an_engine_that_was_started_anew_is_measured_anew(prefill: Engine, decode: Engine) -> None:
    rates = Rates()
    for _ in range(MEASURES + 1):
        rates.take(prefill, decode, NOTHING, sent(1, 100 * MIB, 0.1))
    assert rates.describe(prefill) is not None
    prefill.seen = replace(prefill.seen, incarnation="2")
    assert rates.describe(prefill) is None
    for _ in range(MEASURES):
        rates.take(prefill, decode, NOTHING, sent(1, 100 * MIB, 0.1))
    assert rates.describe(prefill) is None, "the first of them made a connection"
    rates.take(prefill, decode, NOTHING, sent(1, 100 * MIB, 0.1))
    assert rates.describe(prefill) is not None


@pytest.mark.parametrize("load", ["running", "waiting"])
def test_other_requests_of_the_engine_may_share_the_path(prefill: Engine, decode: Engine, load: str) -> None:
    rates = Rates()
    for _ in range(2 * MEASURES):
        rates.take(prefill, decode, sent(0, 0, 0, **{load: 1.0}), sent(1, 100 * MIB, 0.1))
    assert rates.describe(prefill) is None


def test_engines_that_are_gone_are_forgotten(make_engine: Callable[[str], Engine], decode: Engine) -> None:
    rates, other = Rates(), make_engine("prefill")
    gone = make_engine("prefill")
    for _ in range(MEASURES + 1):
        rates.take(gone, decode, NOTHING, sent(1, 100 * MIB, 0.1))
    gone.gone = True
    meet(rates, other, decode)
    assert rates.describe(gone) is None
