"""Does P/D over RDMA work on this cluster: every pair, right tokens, by which transport, how fast, also after restarts.

The right answer is the decode engine's own with a prefix cache hit: a prompt computed as a whole has other shapes than
one whose KV cache is there, and on GPUs other roundings, so that greedy tokens may differ (seen with bf16).
"""

import itertools
import re
import time
from collections.abc import Iterator

import pytest

from e2e.lib.asking import DECODE_HEADER, PREFILL_HEADER, Answer, Question, ask, completion, greedy
from e2e.lib.engine import Engine, transferred
from e2e.lib.groups import Group
from e2e.lib.kubectl import Kubectl
from e2e.lib.target import Target
from e2e.lib.waiting import eventually

LENGTH = 300
RATE = re.compile(r"KV Transfer metrics: .*Throughput \(MB/s\)=([\d.]+)")


@pytest.fixture
def url(target: Target, kubectl: Kubectl, group: Group) -> Iterator[str]:
    with target.reach(kubectl, group.name, 80) as address:
        yield address


def served_name(group: Group) -> str:
    spec = group.get()["spec"]["model"]
    return str(spec.get("servedName") or spec["source"].get("huggingFace", {}).get("repo") or group.name)


def right_tokens(decoder: Engine, question: Question, model: str) -> tuple[int, ...]:
    """Of the second of two equal requests, which finds the first one's KV cache."""
    body = greedy(question, model=model)
    decoder.ask(body)
    return tuple(decoder.ask(body)["choices"][0]["token_ids"])


def ask_rightly(url: str, group: Group, seed: int) -> Answer:
    """An answer whose tokens are right, and for which D fetched the prompt's KV cache."""
    engines = {engine.pod: engine for engine in group.engines("decode")}
    before = {pod: transferred(engine.counters()) for pod, engine in engines.items()}
    question, model = completion(LENGTH, seed), served_name(group)
    answer = ask(url, question, model=model)
    decoder = engines[answer.headers[DECODE_HEADER]]
    moved = transferred(decoder.counters()) - before[decoder.pod]
    assert answer.headers["x-pdserving-path"] == "pd"
    assert moved >= LENGTH - 1, f"{decoder.pod} fetched {moved:.0f} of {LENGTH} tokens"
    assert answer.tokens == right_tokens(decoder, question, model), f"wrong tokens from {answer.headers}"
    return answer


def test_every_pod_has_passed_its_preflight(group: Group) -> None:
    print(group.wait_condition("PreflightPassed", "True", 60)["message"])


def test_every_pair_moves_kv_cache_and_answers_rightly(url: str, group: Group) -> None:
    pods = ([pod["metadata"]["name"] for pod in group.pods(role)] for role in ("prefill", "decode"))
    pairs, seen, deadline = set(itertools.product(*pods)), set(), time.monotonic() + 300
    for seed in itertools.count():
        answer = ask_rightly(url, group, seed)
        seen.add((answer.headers[PREFILL_HEADER], answer.headers[DECODE_HEADER]))
        if seen >= pairs or time.monotonic() > deadline:
            break
    assert seen == pairs
    assert group.wait_condition("KVTransferVerified", "True", 60)


def test_the_transport_is_rdma_and_its_rate_is_told(group: Group) -> None:
    """The rate is printed beside the links' (`pytest -s`), and not judged: it grows with the length of prompts."""
    for engine in (*group.engines("prefill"), *group.engines("decode")):
        assert "installTransport, type=rdma" in group.kubectl.run("logs", engine.pod, "-c", "engine")
    decoder = group.engines("decode")[0]
    rates = eventually("the engine tells its rate", lambda: RATE.findall(log_of(group, decoder)), within=60)
    print(f"{decoder.pod}: {rates[-1]} MB/s; {group.condition('PreflightPassed')['message']}")


def log_of(group: Group, engine: Engine) -> str:
    return group.kubectl.run("logs", engine.pod, "-c", "engine")


def test_a_restarted_prefill_engine_serves_again(url: str, group: Group) -> None:
    prefiller = group.engines("prefill")[0]
    old, restarts = prefiller.engine_id(), prefiller.restarts()
    prefiller.kill()
    eventually("the container is restarted", lambda: prefiller.restarts() > restarts, within=120)
    eventually("a new engine id", lambda: prefiller.engine_id() != old, within=900, every=2)
    group.wait_ready()
    eventually("KV cache moves again", lambda: ask_rightly(url, group, 5000), within=60)


def test_a_rollout_of_decode_leaves_a_group_that_serves(url: str, group: Group) -> None:
    before = {pod["metadata"]["uid"] for pod in group.pods("decode")}
    group.patch({"decode": {"template": {"metadata": {"annotations": {"example.com/rollout": "2"}}}}})
    eventually(
        "every decode pod is a new one",
        lambda: not before & {pod["metadata"]["uid"] for pod in group.pods("decode")},
        within=900,
        every=2,
    )
    group.wait_ready()
    eventually("KV cache moves", lambda: ask_rightly(url, group, 6000), within=60)


def test_nothing_stays(group: Group) -> None:
    group.delete()
    eventually("all its objects are gone", lambda: not group.owned() and not group.owned("pods"), within=300)
