"""Real engines exchange KV cache by Mooncake's RDMA transport: right tokens, counted bytes, and faults that heal."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.lib.counted import LENGTH, ask_and_count, right_tokens
from e2e.lib.engine import Engine
from e2e.lib.fabric import Fabric, moved, rdma_spec
from e2e.lib.groups import Group, merged
from e2e.lib.kubectl import Kubectl
from e2e.lib.release import Release
from e2e.lib.target import Target
from e2e.lib.waiting import eventually

NOTICE_SECONDS = 60.0
RECOVERY_SECONDS = 60.0
"""Mooncake leaves a device alone for 30 s after its port has come back."""
CANARY_SECONDS = 180.0
"""An interval of 30 s, two canaries, the operator's look, and proxies that roll first."""


@pytest.fixture(scope="module")
def group(target: Target, kubectl: Kubectl, fabric: Fabric, release: Release) -> Iterator[Group]:
    """Without canaries, which would move bytes beside those that are counted."""
    found = Group(kubectl, "rdma")
    found.apply(merged(rdma_spec(target.engine_image), {"verification": {"mode": "Off"}}))
    found.wait_ready()
    yield found
    found.delete()


@pytest.fixture
def url(target: Target, kubectl: Kubectl, group: Group) -> Iterator[str]:
    with target.reach(kubectl, group.name, 80) as address:
        yield address


@pytest.fixture
def decoder(group: Group) -> Engine:
    return group.engines("decode")[0]


@pytest.fixture(autouse=True)
def healthy(fabric: Fabric) -> Iterator[None]:
    yield
    fabric.heal()


def test_every_pod_has_passed_its_preflight(group: Group) -> None:
    passed = group.wait_condition("PreflightPassed", "True", 60)
    assert passed["message"].startswith("2 of 2 engine pods passed: Ethernet mlx5_0 400 Gb/sec")


def test_mooncake_says_that_it_took_rdma(group: Group) -> None:
    for engine in (*group.engines("prefill"), *group.engines("decode")):
        assert "installTransport, type=rdma" in group.kubectl.run("logs", engine.pod, "-c", "engine")


def test_tokens_are_right_and_every_byte_went_by_rdma(url: str, group: Group, decoder: Engine) -> None:
    (prefill,) = group.engines("prefill")
    answer, count = ask_and_count(url, decoder, 1)
    assert answer.tokens == right_tokens(decoder, 1)
    assert count >= LENGTH - 1
    eventually("P sent what D got", lambda: moved(prefill, "tx_bytes") == moved(decoder, "rx_bytes"), within=10)
    assert moved(decoder, "rx_bytes") > 0


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("inject = 1 wc 12", "transport retry counter exceeded"),
        ("inject = 2 wc 10", "remote access error"),
        ("inject = 3 qp_fatal", "local work queue catastrophic error"),
    ],
)
def test_a_passing_fault_strikes_and_is_not_seen(
    url: str, fabric: Fabric, group: Group, decoder: Engine, fault: str, told: str
) -> None:
    """Mooncake builds the connection anew and sends again; only its log has it."""
    (prefill,) = group.engines("prefill")
    ask_and_count(url, decoder, len(told))  # so that there is a connection to strike
    fabric.change("prefill", fault)
    answer, count = ask_and_count(url, decoder, 100 + len(told))
    assert answer.tokens == right_tokens(decoder, 100 + len(told))
    assert count >= LENGTH - 1
    eventually("the fault struck", lambda: told in group.kubectl.run("logs", prefill.pod, "-c", "engine"), within=20)


def test_a_slow_link_costs_time_only(url: str, fabric: Fabric, decoder: Engine) -> None:
    fabric.change("prefill", "bandwidth = 0.1")
    answer, count = ask_and_count(url, decoder, 50)
    assert answer.tokens == right_tokens(decoder, 50)
    assert count >= LENGTH - 1


@pytest.mark.parametrize(
    ("role", "fault"),
    [
        ("prefill", "state = DOWN"),
        ("decode", "state = DOWN"),
        ("prefill", "blackhole = yes"),
    ],
)
def test_a_dead_fabric_costs_speed_not_answers_and_heals(
    url: str, fabric: Fabric, group: Group, decoder: Engine, role: str, fault: str
) -> None:
    """Clients see right answers throughout; only the condition says that every prompt is computed twice."""
    seed = len(role + fault) * 1000
    group.wait_condition("KVTransferVerified", "True", NOTICE_SECONDS)
    fabric.change(role, fault)
    answer, count = ask_and_count(url, decoder, seed)
    assert answer.tokens == right_tokens(decoder, seed)
    assert count == 0
    seeds = itertools.count(seed + 1)

    def fetches() -> bool:
        return ask_and_count(url, decoder, next(seeds))[1] > 0

    def noticed() -> dict[str, Any]:
        """Asks on: between two looks at D's counters a last good transfer hides a first failed one."""
        assert not fetches()
        return group.has_condition("KVTransferVerified", "False")

    told = eventually("the condition is False", noticed, within=NOTICE_SECONDS, every=2)
    assert told["reason"] == "NoKVMoved"
    assert decoder.pod in told["message"]
    fabric.heal()

    eventually("KV cache moves again", fetches, within=RECOVERY_SECONDS, every=2)
    group.wait_condition("KVTransferVerified", "True", NOTICE_SECONDS)


def test_canaries_find_a_port_that_is_down_without_any_request(fabric: Fabric, group: Group) -> None:
    group.patch({"verification": {"mode": "Enforce", "intervalSeconds": 30}})
    assert group.wait_condition("KVTransferVerified", "True", CANARY_SECONDS)["reason"] == "Verified"
    fabric.change("prefill", "state = DOWN")
    told = group.wait_condition("KVTransferVerified", "False", CANARY_SECONDS)
    assert told["reason"] == "NoKVMoved"
    assert group.wait_condition("Ready", "False", NOTICE_SECONDS)["reason"] == "NoKVMoved"
    fabric.heal()
    group.wait_condition("KVTransferVerified", "True", CANARY_SECONDS)
    group.wait_ready(NOTICE_SECONDS)
