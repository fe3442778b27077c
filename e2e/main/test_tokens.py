"""Greedy answers through the proxy equal those of an engine without P/D, and D did not compute the prompt.

Wrong KV cache gives fluent nonsense with HTTP 200, so equality of every token is the only check that counts. Prompt
lengths stand around block boundaries (the block size is 32), where tails and surplus blocks go wrong.
"""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.lib.asking import ANSWER_TOKENS, Question, ask, chat, completion, prompt
from e2e.lib.engine import Engine, transferred
from e2e.lib.groups import Group
from e2e.lib.plain import Plain
from e2e.lib.waiting import eventually

LENGTHS = (1, 31, 32, 33, 64, 96, 300)
TEXTS = (
    "hi",
    "the quick brown fox jumps over the lazy dog and the request waits for its blocks",
    "a b c d e f g " * 12,
)


@pytest.fixture
def decoder(group: Group) -> Engine:
    (engine,) = group.engines("decode")
    return engine


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("length", LENGTHS)
def test_completion_equals_a_plain_engine(url: str, plain: Plain, length: int, streamed: bool) -> None:
    question = completion(length)
    answer = ask(url, question.streamed() if streamed else question)
    assert answer.tokens == plain.tokens(question)
    assert len(answer.tokens) == ANSWER_TOKENS


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("text", TEXTS, ids=["short", "middle", "long"])
def test_chat_equals_a_plain_engine(url: str, plain: Plain, text: str, streamed: bool) -> None:
    question = chat(text)
    answer = ask(url, question.streamed() if streamed else question)
    assert answer.tokens == plain.tokens(question)
    assert answer.text


def test_eight_at_once_equal_a_plain_engine(url: str, plain: Plain) -> None:
    questions = [completion(20 + 17 * index, seed=index) for index in range(8)]
    right = [plain.tokens(question) for question in questions]
    with ThreadPoolExecutor(len(questions)) as threads:
        answers = list(threads.map(lambda question: ask(url, question).tokens, questions))
    assert answers == right


def test_decode_fetches_what_was_sent(url: str, decoder: Engine) -> None:
    """Every token of these prompts reaches D as KV cache, and the engine's own counters say so."""
    lengths = [length for length in LENGTHS if length > 1]  # the last token is computed on D; of one, nothing remains
    before = decoder.counters()
    for length in lengths:
        ask(url, completion(length, seed=7))
    after = eventually("D counted the prompts", lambda: _grown(decoder, before, sum(lengths)), within=20)
    hits = "vllm:external_prefix_cache_hits_total"
    assert after[hits] - before[hits] == sum(lengths)


def _grown(decoder: Engine, before: dict[str, float], wanted: int) -> dict[str, float]:
    """The counters once they have grown by all that is wanted; vLLM publishes them a moment after the answer."""
    after = decoder.counters()
    grown = transferred(after) - transferred(before)
    assert grown >= wanted, f"external_kv_transfer grew by {grown}, {wanted} prompt tokens were sent"
    return after


def test_wrong_kv_cache_gives_wrong_tokens(group: Group, plain: Plain, decoder: Engine) -> None:
    """Negative control: given another prompt's KV cache, D answers wrongly. So equality above means right KV cache."""
    (prefiller,) = group.engines("prefill")
    asked, other = prompt(64, seed=1), prompt(64, seed=2)
    right = plain.tokens(Question("/v1/completions", {"prompt": asked}))
    assert _by_hand(prefiller, decoder, asked, asked) == right
    assert _by_hand(prefiller, decoder, other, asked) != right


def _by_hand(prefiller: Engine, decoder: Engine, computed: list[int], asked: list[int]) -> tuple[int, ...]:
    """Tokens of D for one prompt with the KV cache that P computed for another."""
    transfer = str(uuid.uuid4())
    common = {"model": "tiny", "temperature": 0, "ignore_eos": True, "return_token_ids": True, "cache_salt": transfer}
    address = prefiller.address()
    prefiller.ask(
        {
            **common,
            "prompt": computed,
            "max_tokens": 1,
            "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer},
        }
    )
    params = {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "transfer_id": transfer,
        "remote_engine_id": prefiller.engine_id(),
        "remote_bootstrap_addr": f"http://{address}:8998",
    }
    answer = decoder.ask({**common, "prompt": asked, "max_tokens": ANSWER_TOKENS, "kv_transfer_params": params})
    return tuple(answer["choices"][0]["token_ids"])
