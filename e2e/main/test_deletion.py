"""A deleted group leaves nothing behind, whether or not an operator watches: owner references do it, no finalizer."""

import time

import pytest

from e2e.lib.groups import Group, example_spec, merged
from e2e.lib.kubectl import Kubectl
from e2e.lib.release import Release
from e2e.lib.target import Target
from e2e.lib.waiting import eventually

SECONDS = 60.0


@pytest.fixture
def idle(target: Target, release: Release, kubectl: Kubectl) -> Group:
    """A group with all its objects and no engines, which takes seconds to come up."""
    group = Group(kubectl, "idle")
    group.apply(merged(example_spec(target.engine_image), {"suspend": True}))
    eventually("all objects of the group", lambda: len(group.owned()) >= 10, within=60)
    return group


def test_nothing_stays(idle: Group) -> None:
    idle.delete()
    eventually("nothing is left", lambda: _gone(idle), within=SECONDS)


def test_nothing_stays_though_the_operator_is_down(idle: Group, release: Release) -> None:
    with release.absent():
        idle.delete()
        eventually("nothing is left", lambda: _gone(idle), within=SECONDS)
    assert _gone(idle), "the returned operator made objects for a group that is gone"


def test_the_serving_group_goes_within_seconds(group: Group) -> None:
    started = time.monotonic()
    group.delete()
    eventually("engines, proxies and all else are gone", lambda: _gone(group), within=SECONDS)
    assert time.monotonic() - started < SECONDS


def _gone(group: Group) -> bool:
    return not group.kubectl.find("pdservinggroup", group.name) and not group.owned() and not group.owned("pods")
