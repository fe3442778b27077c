"""Real engines exchange KV cache by Mooncake's RDMA transport: right tokens, counted bytes, and faults that heal.

The right answer is D's own, computed from the whole prompt with no P behind it.
"""

import json
import uuid
from collections.abc import Iterator

import pytest

from e2e.lib.asking import ANSWER_TOKENS, MODEL, Answer, ask, completion
from e2e.lib.engine import Engine, transferred
from e2e.lib.fabric import Fabric, rdma_spec
from e2e.lib.groups import Group
from e2e.lib.kubectl import Kubectl
from e2e.lib.release import Release
from e2e.lib.target import Target
from e2e.lib.waiting import eventually

LENGTH = 96
STATS = "import glob, json; print(json.dumps([json.load(open(f)) for f in glob.glob('/tmp/*.json')]))"
NOTICE_SECONDS = 60.0
RECOVERY_SECONDS = 60.0
"""Mooncake leaves a device alone for 30 s after its port has come back."""


@pytest.fixture(scope="module")
def group(target: Target, kubectl: Kubectl, fabric: Fabric, release: Release) -> Iterator[Group]:
    found = Group(kubectl, "rdma")
    found.apply(rdma_spec(target.engine_image))
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


def right_tokens(decoder: Engine, seed: int) -> tuple[int, ...]:
    body = {
        "model": MODEL,
        "temperature": 0,
        "max_tokens": ANSWER_TOKENS,
        "ignore_eos": True,
        "return_token_ids": True,
        "cache_salt": str(uuid.uuid4()),
        **completion(LENGTH, seed).body,
    }
    return tuple(decoder.ask(body)["choices"][0]["token_ids"])


def ask_and_count(url: str, decoder: Engine, seed: int) -> tuple[Answer, float]:
    """The answer, and how many prompt tokens D took from P for it."""
    before = transferred(decoder.counters())
    answer = ask(url, completion(LENGTH, seed))
    return answer, transferred(decoder.counters()) - before


def moved(engine: Engine, counter: str) -> int:
    """A counter of the devices of all processes of an engine pod."""
    processes = json.loads(engine.kubectl.execute_in(engine.pod, "python", "-c", STATS))
    return sum(device[counter] for process in processes for device in process["devices"].values())


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


def test_a_port_that_is_down_costs_speed_not_answers_and_heals(
    url: str, fabric: Fabric, group: Group, decoder: Engine
) -> None:
    """Clients see right answers throughout; only the condition says that every prompt is computed twice."""
    group.wait_condition("KVTransferVerified", "True", NOTICE_SECONDS)
    fabric.change("prefill", "state = DOWN")
    answer, count = ask_and_count(url, decoder, 2)
    assert answer.tokens == right_tokens(decoder, 2)
    assert count == 0
    told = group.wait_condition("KVTransferVerified", "False", NOTICE_SECONDS)
    assert told["reason"] == "NoKVMoved"
    assert decoder.pod in told["message"]
    assert group.condition("Ready")["status"] == "True"
    fabric.heal()
    seeds = iter(range(100, 200))

    def fetches() -> bool:
        return ask_and_count(url, decoder, next(seeds))[1] > 0

    eventually("KV cache moves again", fetches, within=RECOVERY_SECONDS, every=2)
    group.wait_condition("KVTransferVerified", "True", NOTICE_SECONDS)
