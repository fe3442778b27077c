"""The timer wheel: one deadline fires once, when its last time has passed, and a forgotten one keeps nobody alive."""

import gc
import weakref

import pytest

from pdserving.proxy.deadlines import TICK, Deadline, Wheel


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Owner:
    def __init__(self) -> None:
        self.deadline = Deadline(self.expired)
        self.fired = 0

    def expired(self) -> None:
        self.fired += 1


class Wheels:
    def __init__(self) -> None:
        self.clock = Clock()
        self.wheel = Wheel(self.clock)
        self.owner = Owner()

    def arm(self, after: float) -> None:
        self.wheel.arm(self.owner.deadline, self.clock.now + after)

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK)):
            self.clock.now += TICK
            self.wheel.advance()


@pytest.fixture
def wheels() -> Wheels:
    return Wheels()


def test_fires_once_within_two_ticks(wheels: Wheels) -> None:
    wheels.arm(5.0)
    wheels.pass_time(4.9)
    assert wheels.owner.fired == 0
    wheels.pass_time(0.3)
    assert wheels.owner.fired == 1
    wheels.pass_time(10.0)
    assert wheels.owner.fired == 1


@pytest.mark.parametrize(("first", "then"), [(5.0, 9.0), (9.0, 5.0), (5.0, 5.05), (300.0, 0.5)])
def test_the_last_time_counts_earlier_or_later(wheels: Wheels, first: float, then: float) -> None:
    wheels.arm(first)
    wheels.arm(then)
    wheels.pass_time(then - 0.1)
    assert wheels.owner.fired == 0
    wheels.pass_time(0.4)
    assert wheels.owner.fired == 1


def test_moved_later_by_assignment(wheels: Wheels) -> None:
    wheels.arm(2.0)
    wheels.pass_time(1.5)
    wheels.owner.deadline.at = wheels.clock.now + 2.0
    wheels.pass_time(1.8)
    assert wheels.owner.fired == 0
    wheels.pass_time(0.5)
    assert wheels.owner.fired == 1


def test_a_cancelled_deadline_never_fires_and_frees_its_owner(wheels: Wheels) -> None:
    wheels.arm(3600.0)
    wheels.wheel.cancel(wheels.owner.deadline)
    owner = weakref.ref(wheels.owner)
    wheels.owner = Owner()
    gc.collect()
    assert owner() is None


def test_armed_again_after_cancel(wheels: Wheels) -> None:
    wheels.arm(1.0)
    wheels.wheel.cancel(wheels.owner.deadline)
    wheels.arm(2.0)
    wheels.pass_time(1.5)
    assert wheels.owner.fired == 0
    wheels.pass_time(1.0)
    assert wheels.owner.fired == 1


def test_one_that_fires_cancels_another_of_the_same_tick(wheels: Wheels) -> None:
    both = [Owner(), Owner()]
    for owner, other in (both, reversed(both)):
        owner.deadline.action = lambda owner=owner, other=other: (  # type: ignore[misc]
            owner.expired(), wheels.wheel.cancel(other.deadline),
        )  # fmt: skip
        wheels.wheel.arm(owner.deadline, wheels.clock.now + 1.0)
    wheels.pass_time(2.0)
    assert sum(owner.fired for owner in both) == 1
