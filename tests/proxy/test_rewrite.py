"""The two bodies: what P and D get for what the client sent."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdserving.proxy import rewrite
from pdserving.proxy.dialects import CHAT, COMPLETION, GENERATE, MESSAGES, RESPONSES, Dialect
from pdserving.proxy.errors import BadRequestError
from pdserving.proxy.http.upstream import Payload
from pdserving.proxy.rewrite import Transfer

TRANSFER = Transfer("t" * 32, "engine", "http://10.0.0.1:8998")
Json = dict[str, Any]


def bodies(dialect: Dialect, body: Json) -> tuple[Json, Json]:
    prompt = rewrite.parse(dialect, json.dumps(body).encode())
    prefill = rewrite.build_prefill_body(dialect, prompt, TRANSFER.transfer_id)
    return load(prefill), load(rewrite.build_decode_body(prompt, TRANSFER))


def load(body: Payload) -> Json:
    loaded: Json = json.loads(b"".join(body))
    return loaded


def local_reason(dialect: Dialect, **body: Any) -> str | None:
    return rewrite.parse(dialect, json.dumps(body).encode()).local_reason


def test_prefill_always_ends_by_length() -> None:
    """Each of these, left as it was, gives wrong tokens, an error, or no KV cache (vLLM 0.32/0.33)."""
    sent = {
        "messages": [],
        "max_tokens": 40,
        "max_completion_tokens": 40,
        "min_tokens": 7,
        "stop": ["x"],
        "stop_token_ids": [3],
        "ignore_eos": False,
        "stream": True,
        "stream_options": {"include_usage": True},
        "logprobs": True,
        "top_logprobs": 3,
    }
    prefill, decode = bodies(CHAT, sent)
    assert prefill == {
        "messages": [],
        "max_tokens": 1,
        "max_completion_tokens": 1,
        "min_tokens": 1,
        "ignore_eos": True,
        "n": 1,
        "stream": False,
        "kv_transfer_params": {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "transfer_id": TRANSFER.transfer_id,
        },
    }
    assert decode == {
        **sent,
        "kv_transfer_params": {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "transfer_id": TRANSFER.transfer_id,
            "remote_engine_id": "engine",
            "remote_bootstrap_addr": "http://10.0.0.1:8998",
        },
    }


@pytest.mark.parametrize(
    "field",
    ["tools", "tool_choice", "chat_template_kwargs", "documents", "add_generation_prompt", "cache_salt", "priority",
     "model", "response_format", "truncate_prompt_tokens", "reasoning_effort", "mm_processor_kwargs"],
)  # fmt: skip
def test_what_shapes_the_prompt_reaches_both(field: str) -> None:
    prefill, decode = bodies(CHAT, {"messages": [], field: {"any": 1}})
    assert prefill[field] == decode[field] == {"any": 1}


def test_generate_keeps_its_sampling_parameters_apart() -> None:
    sampling = {"max_tokens": 9, "stop_token_ids": [1], "temperature": 0, "extra_args": {"kv_transfer_params": 1}}
    prefill, decode = bodies(GENERATE, {"token_ids": [1, 2], "stream": True, "sampling_params": sampling})
    assert prefill["sampling_params"] == {
        "max_tokens": 1, "min_tokens": 1, "ignore_eos": True, "n": 1, "temperature": 0, "extra_args": {},
    }  # fmt: skip
    assert decode["sampling_params"] == {**sampling, "extra_args": {}}
    assert prefill["stream"] is False


def test_responses_and_messages() -> None:
    prefill, _ = bodies(RESPONSES, {"input": "a", "max_output_tokens": 9, "stream": True})
    assert prefill["max_output_tokens"] == 1
    assert prefill["store"] is prefill["stream"] is False
    prefill, _ = bodies(MESSAGES, {"messages": [], "max_tokens": 9, "stop_sequences": ["a"], "system": "s"})
    assert prefill["max_tokens"] == 1
    assert prefill["system"] == "s"
    assert "stop_sequences" not in prefill


@pytest.mark.parametrize(
    "prompt", ["a", "", [1, 2, 3], ["one"], [[1, 2]], [7]], ids=["text", "empty", "ids", "one text", "one of ids", "id"]
)
def test_one_prompt_can_be_handed_over(prompt: Any) -> None:
    assert local_reason(COMPLETION, prompt=prompt) is None


@pytest.mark.parametrize("prompt", [["a", "b"], [[1], [2]], [], None, {"a": 1}, [[1], "b"]])
def test_several_prompts_never_share_a_transfer(prompt: Any) -> None:
    assert local_reason(COMPLETION, prompt=prompt) == "prompts"


@pytest.mark.parametrize(
    "fields",
    [{"n": 2}, {"best_of": 2}, {"use_beam_search": True}, {"echo": True}, {"prompt_logprobs": 0}, {"max_tokens": 0},
     {"n": 1.0}, {"n": "2"}],
)  # fmt: skip
def test_shapes_that_decode_serves_alone(fields: Json) -> None:
    assert local_reason(CHAT, messages=[], **fields) == next(iter(fields))


@pytest.mark.parametrize(
    "fields", [{"n": 1}, {"n": None}, {"echo": False}, {"use_beam_search": False}, {"stream": None}]
)
def test_defaults_spelled_out_change_nothing(fields: Json) -> None:
    assert local_reason(CHAT, messages=[], **fields) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
names = st.sampled_from([*CHAT.prefill, *CHAT.dropped, "messages", "tools", "seed", "model", "kv_transfer_params"])
objects = st.dictionaries(names | st.text(), json_values, max_size=12)


@settings(max_examples=40)
@given(objects)
def test_decode_gets_the_client_s_request_and_nothing_else(body: Json) -> None:
    extras = ("vllm_xargs", "extra_args")
    body = {name: value for name, value in body.items() if name not in extras}
    _, decode = bodies(CHAT, body)
    assert decode.pop("kv_transfer_params")["do_remote_prefill"] is True
    assert decode == {name: value for name, value in body.items() if name not in rewrite.TRANSFER}


@settings(max_examples=40)
@given(objects)
def test_prefill_never_gets_what_would_keep_it_from_ending_by_length(body: Json) -> None:
    body = {name: value for name, value in body.items() if name not in ("vllm_xargs", "extra_args")}
    prefill, _ = bodies(CHAT, body)
    assert not prefill.keys() & (CHAT.dropped - CHAT.prefill.keys())
    assert {name: prefill[name] for name in CHAT.prefill} == {
        "max_tokens": 1, "max_completion_tokens": 1, "min_tokens": 1, "ignore_eos": True, "n": 1, "stream": False,
    }  # fmt: skip
    assert prefill["kv_transfer_params"]["transfer_id"] == TRANSFER.transfer_id


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_a_body_or_a_bad_request(data: bytes) -> None:
    try:
        prompt = rewrite.parse(COMPLETION, data)
    except BadRequestError:
        return
    load(rewrite.build_prefill_body(COMPLETION, prompt, "t"))
    load(rewrite.build_decode_body(prompt, TRANSFER))


@pytest.mark.parametrize("size", [rewrite.LARGE - 10, rewrite.LARGE, 3 * rewrite.LARGE])
@pytest.mark.parametrize("more", [{}, {"model": "tiny", "stop": ["x"], "vllm_xargs": {"a": 1}}])
def test_a_large_prompt_is_sent_whole(size: int, more: Json) -> None:
    body = {"prompt": '\\"é' + "x" * size, **more}
    prefill, decode = bodies(COMPLETION, body)
    assert prefill["prompt"] == decode["prompt"] == body["prompt"]
    assert {name: decode[name] for name in body} == body
