"""Serving needs neither the operator nor the API server; when they return, the group converges."""

import pytest

from e2e.lib.groups import Group
from e2e.lib.plain import Plain
from e2e.lib.release import Release
from e2e.lib.target import Target
from e2e.lib.trickle import trickle
from e2e.lib.waiting import eventually
from e2e.main.test_scaling import known_answers

LONGEST = 20.0


def test_serving_goes_on_without_the_operator(url: str, group: Group, plain: Plain, release: Release) -> None:
    with trickle(url, known_answers(plain)) as tally:
        with release.absent():
            group.kubectl.delete("poddisruptionbudget", f"{group.name}-decode")
            asked = tally.answered
            eventually("questions go on", lambda: tally.answered > asked + 8, within=60)
            assert not group.kubectl.find("poddisruptionbudget", f"{group.name}-decode")
        back = lambda: group.kubectl.find("poddisruptionbudget", f"{group.name}-decode")  # noqa: E731
        eventually("the returned operator put the missing object back", back, within=60)
    assert not tally.wrong, str(tally)
    assert tally.slowest < LONGEST


def test_the_standby_takes_over_when_the_active_one_dies(group: Group, release: Release) -> None:
    active = release.active()
    release.kubectl.run("delete", "pod", active, "--force", "--grace-period=0")
    group.kubectl.delete("poddisruptionbudget", f"{group.name}-prefill")
    back = lambda: group.kubectl.find("poddisruptionbudget", f"{group.name}-prefill")  # noqa: E731
    eventually("another replica does the work", back, within=90)
    assert release.active() != active


def test_serving_goes_on_over_an_api_server_restart(
    url: str, target: Target, group: Group, plain: Plain, release: Release
) -> None:
    if not target.restart_api_server:
        pytest.skip(f"the API server of CLUSTER={target.name} is not ours to restart; CLUSTER=self shows it")
    with trickle(url, known_answers(plain)) as tally:
        target.restart_api_server()
        release.kill()
        asked = tally.answered
        eventually("questions go on", lambda: tally.answered > asked + 8, within=60)
    assert not tally.wrong, str(tally)
    release.wait()
    group.kubectl.delete("poddisruptionbudget", f"{group.name}-decode")
    back = lambda: group.kubectl.find("poddisruptionbudget", f"{group.name}-decode")  # noqa: E731
    eventually("the operator works again", back, within=90)
    group.wait_ready(120)
