"""Every parameter gives by P/D what a plain engine gives: tokens, finish reasons, log probabilities, usage, errors."""

import json
from typing import Any

import httpx
import pytest

from e2e.lib import parameters
from e2e.lib.asking import MODEL, SECONDS, completion, greedy
from e2e.lib.parameters import CASES, ERROR, Case
from e2e.lib.plain import Plain

OF_ONE_ANSWER = frozenset(
    ("id", "request_id", "created", "created_at", "system_fingerprint", "kv_transfer_params", "prompt_tokens_details",
     "input_tokens_details", "cache_read_input_tokens", "cache_creation_input_tokens")
)  # fmt: skip
"""What differs between two answers of one engine, and the count of cached tokens, which is documented."""
LOGPROB = 0.02
"""Log probabilities of one token computed in batches of different shapes."""


@pytest.mark.parametrize("case", CASES, ids=[f"{case.path.rsplit('/', 1)[1]}-{case.title}" for case in CASES])
def test_answer_equals_that_of_a_plain_engine(url: str, plain: Plain, case: Case) -> None:
    question = case.resolve(plain.tokens(completion(parameters.LENGTH)))
    own = case.path in {parameters.COMPLETION, parameters.CHAT}
    body = greedy(question) if own else {"model": MODEL, "temperature": 0, **question.body}
    wanted, got = post(plain.url, case.path, body), post(url, case.path, body)
    assert got.status_code == wanted.status_code, got.text
    assert read(got) == like(read(wanted))
    assert (wanted.status_code >= 400) == (case.served == ERROR)
    if case.served != ERROR:
        assert got.headers["x-pdserving-path"] == case.served


def post(url: str, path: str, body: dict[str, Any]) -> httpx.Response:
    with httpx.Client(timeout=SECONDS, trust_env=False) as client:
        return client.post(url + path, json=body)


def read(response: httpx.Response) -> Any:
    """What a client can see of an answer, without what belongs to this one answer."""
    if response.headers["content-type"].startswith("text/event-stream"):
        return _joined(response.text)
    return _without(response.json())


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(each) for name, each in value.items() if name not in OF_ONE_ANSWER}
    return [_without(each) for each in value] if isinstance(value, list) else value


def _joined(stream: str) -> dict[str, Any]:
    """Text, token ids and the ends of a stream; how it was cut into events is the engine's choice."""
    data = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    events = [json.loads(each) for each in data if each != "[DONE]"]
    choices = [choice for event in events for choice in event.get("choices", ())]
    return {
        "text": "".join(c.get("text") or c.get("delta", {}).get("content") or "" for c in choices),
        "tokens": [token for choice in choices for token in choice.get("token_ids") or ()],
        "finish": [choice["finish_reason"] for choice in choices if choice.get("finish_reason")],
        "usage": _without(events[-1].get("usage")),
        "continuous": bool(events[0].get("usage")),
        "end": data[-1],
    }


def like(value: Any) -> Any:
    """The same with room for rounding."""
    if isinstance(value, dict):
        return {name: like(each) for name, each in value.items()}
    if isinstance(value, list):
        return [like(each) for each in value]
    return pytest.approx(value, abs=LOGPROB) if isinstance(value, float) else value
