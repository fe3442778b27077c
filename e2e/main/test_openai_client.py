"""The unmodified `openai` Python client works: answers, streams, and errors as its own exception types."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from e2e.lib.asking import MODEL

QUESTION: Any = [{"role": "user", "content": "hello world, how are you today?"}]


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with (
        openai.DefaultHttpxClient(trust_env=False) as transport,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=transport, max_retries=0) as opened,
    ):
        yield opened


def test_lists_the_model(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_completion_tokens=8)
    assert answer.choices[0].message.role == "assistant"
    assert answer.usage
    assert answer.usage.completion_tokens <= 8


def test_chat_streamed_says_what_the_whole_answer_says(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "max_tokens": 12, "temperature": 0}
    whole = client.chat.completions.create(**asked).choices[0].message.content
    stream = client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole
    assert chunks[-1].usage
    assert chunks[-1].usage.total_tokens > 0


def test_completion(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="the quick brown", max_tokens=5, temperature=0)
    assert answer.choices[0].finish_reason in {"length", "stop"}


def test_completion_streamed(client: openai.OpenAI) -> None:
    stream = client.completions.create(model=MODEL, prompt="the quick", max_tokens=5, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream if chunk.choices)


@pytest.mark.parametrize("count", [2, 3])
def test_several_choices_are_all_there(client: openai.OpenAI, count: int) -> None:
    answer = client.completions.create(model=MODEL, prompt="the quick brown", max_tokens=4, n=count, temperature=0.8)
    assert len(answer.choices) == count


def test_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no-such-model"):
        client.chat.completions.create(model="no-such-model", messages=QUESTION)


def test_too_long_prompt_is_a_bad_request(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model=MODEL, prompt=[5] * 600, max_tokens=1)


def test_wrong_type_is_a_bad_request(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model=MODEL, prompt="x", max_tokens="many")  # type: ignore[call-overload]


def test_unknown_path_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.files.list()
