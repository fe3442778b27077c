"""Requests whose answers through the proxy must equal those of an engine without P/D, and the table of them.

`test_parameters` sends each to both. The table in ``docs/parameters.md`` is made from the same list (`make generate`),
so it says nothing that no test has looked at.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from e2e.lib.asking import Question, prompt

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES, GENERATE = "/v1/responses", "/v1/messages", "/inference/v1/generate"
PD, LOCAL, ERROR = "pd", "local", "error"
EOS: Final = 2
LENGTH: Final = 70
"""Tokens of a prompt: two whole blocks and a tail."""
SENTENCE: Final = "the quick brown fox jumps over the lazy dog and waits"


@dataclass(frozen=True, slots=True)
class Case:
    """``parameters`` may hold functions of the greedy answer's token ids, for what a test can't know before."""

    title: str
    path: str
    parameters: Mapping[str, Any]
    served: str = PD
    note: str = ""

    def resolve(self, greedy: tuple[int, ...]) -> Question:
        return Question(self.path, {**CONTENT[self.path], **_resolved(self.parameters, greedy)})


CONTENT: Final[Mapping[str, Mapping[str, Any]]] = {
    COMPLETION: {"prompt": prompt(LENGTH)},
    CHAT: {"messages": [{"role": "user", "content": SENTENCE}]},
    RESPONSES: {"input": SENTENCE},
    MESSAGES: {"messages": [{"role": "user", "content": SENTENCE}]},
    GENERATE: {"token_ids": prompt(LENGTH)},
}


def _resolved(value: Any, greedy: tuple[int, ...]) -> Any:
    if isinstance(value, Mapping):
        return {str(_resolved(name, greedy)): _resolved(each, greedy) for name, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each, greedy) for each in value]
    return value(greedy) if callable(value) else value


def token(index: int) -> Callable[[tuple[int, ...]], int]:
    return lambda greedy: greedy[index]


ONE_ID: Final = "one transfer id would serve both"
WHOLE_PROMPT: Final = "D must compute the prompt itself"
SAMPLED: Final[Mapping[str, Any]] = {"temperature": 1.0, "seed": 7}
ENDING: Final[Mapping[str, Any]] = {"ignore_eos": False}

CASES: Final = (
    Case("nothing but a prompt of token ids", COMPLETION, {}),
    Case("`prompt` as text", COMPLETION, {"prompt": SENTENCE}),
    Case("`prompt` as a list of one", COMPLETION, {"prompt": [prompt(LENGTH)]}),
    Case("several prompts", COMPLETION, {"prompt": [prompt(40), prompt(50)]}, LOCAL, ONE_ID),
    Case("`n` of 2", COMPLETION, {**SAMPLED, "n": 2}, LOCAL, ONE_ID),
    Case("`best_of` of 2", COMPLETION, {**SAMPLED, "best_of": 2}, LOCAL),
    Case("`temperature`, `seed`", COMPLETION, SAMPLED),
    Case("`top_p`, `top_k`, `min_p`", COMPLETION, {**SAMPLED, "top_p": 0.9, "top_k": 20, "min_p": 0.01}),
    Case(
        "`presence_penalty`, `frequency_penalty`, `repetition_penalty`",
        COMPLETION,
        {"presence_penalty": 0.5, "frequency_penalty": 0.5, "repetition_penalty": 1.3},
    ),
    Case("`logprobs`", COMPLETION, {"logprobs": 3}),
    Case("`prompt_logprobs`", COMPLETION, {"prompt_logprobs": 1}, LOCAL, WHOLE_PROMPT),
    Case("`echo`", COMPLETION, {"echo": True}, LOCAL, WHOLE_PROMPT),
    Case("`max_tokens` of 0", COMPLETION, {"max_tokens": 0, "echo": True}, LOCAL),
    Case("`max_tokens` of 1", COMPLETION, {"max_tokens": 1}),
    Case("`stop_token_ids` met by the first token", COMPLETION, {"stop_token_ids": [token(0)]}),
    Case("`stop_token_ids` met later", COMPLETION, {"stop_token_ids": [token(5)]}),
    Case("`min_tokens` beyond a stop token", COMPLETION, {"stop_token_ids": [token(0)], "min_tokens": 4}),
    Case("`stop`", COMPLETION, {"stop": ["e", "\n", " "]}),
    Case("`stop`, `include_stop_str_in_output`", COMPLETION, {"stop": ["e"], "include_stop_str_in_output": True}),
    Case("`logit_bias` to EOS", COMPLETION, {**ENDING, "logit_bias": {EOS: 100}}),
    Case("`logit_bias` against a token", COMPLETION, {"logit_bias": {token(0): -100}}),
    Case("`allowed_token_ids`", COMPLETION, {"allowed_token_ids": [token(0), 40, 41, 42]}),
    Case("`bad_words`", COMPLETION, {"bad_words": ["the", "a"]}),
    Case("`truncate_prompt_tokens`", COMPLETION, {"truncate_prompt_tokens": 40}),
    Case("`skip_special_tokens`", COMPLETION, {"skip_special_tokens": False}),
    Case("`priority`", COMPLETION, {"priority": 0}),
    Case("`response_format` with a JSON schema", COMPLETION, {**ENDING, "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object", "properties": {"a": {"type": "integer"}},
                                                     "required": ["a"], "additionalProperties": False}},
    }}),
    Case("`structured_outputs` with a choice", COMPLETION, {**ENDING, "structured_outputs": {"choice": ["yes", "no"]}}),
    Case("`stream`, `stream_options`", COMPLETION, {"stream": True, "stream_options": {"include_usage": True}}),
    Case(
        "`stream_options` with continuous usage",
        COMPLETION,
        {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ),
    Case("`user` and unknown fields", COMPLETION, {"user": "u", "of_a_later_version": True}),
    Case("`kv_transfer_params` of a client", COMPLETION, {"kv_transfer_params": {"remote_port": 1}}, note="removed"),
    Case("`logprobs` above the engine's limit", COMPLETION, {"logprobs": 1000}, ERROR),
    Case("a prompt longer than the context", COMPLETION, {"prompt": [5] * 5000}, ERROR),
    Case("a model or LoRA adapter that is not there", COMPLETION, {"model": "adapter"}, ERROR),
    Case("an unknown type of `response_format`", COMPLETION, {"response_format": {"type": "poem"}}, ERROR),
    Case("nothing but messages", CHAT, {}),
    Case("`max_completion_tokens`", CHAT, {"max_completion_tokens": 5}),
    Case("`logprobs`, `top_logprobs`", CHAT, {"logprobs": True, "top_logprobs": 2}),
    Case("`n` of 2", CHAT, {**SAMPLED, "n": 2}, LOCAL, ONE_ID),
    Case("`echo`", CHAT, {"echo": True}, LOCAL, WHOLE_PROMPT),
    Case("`response_format` with a JSON object", CHAT, {**ENDING, "response_format": {"type": "json_object"}}),
    Case("`tools` with `tool_choice` none", CHAT, {"tool_choice": "none", "tools": [
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}},
    ]}),
    Case("`tools` with a choice by the model", CHAT, {"tool_choice": "auto", "tools": [
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}},
    ]}, ERROR, "the tiny engine has no tool parser; it says so by either way"),
    Case("`continue_final_message`", CHAT, {
        "messages": [{"role": "user", "content": SENTENCE}, {"role": "assistant", "content": "the fox"}],
        "continue_final_message": True, "add_generation_prompt": False,
    }),
    Case("`chat_template_kwargs`", CHAT, {"chat_template_kwargs": {"enable_thinking": False}}),
    Case("image parts", CHAT, {"messages": [{"role": "user", "content": [
        {"type": "text", "text": SENTENCE},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]}]}, ERROR, "the tiny model reads no images; it says so by either way"),
    Case("`stream`", CHAT, {"stream": True, "stream_options": {"include_usage": True}}),
    Case("a text", RESPONSES, {"max_output_tokens": 8, "store": False}),
    Case("a message", MESSAGES, {"max_tokens": 8}),
    Case("a message with `system`", MESSAGES, {"max_tokens": 8, "system": "be brief"}),
    Case("token ids", GENERATE, {"sampling_params": {"temperature": 0, "max_tokens": 8, "ignore_eos": True}}),
)  # fmt: skip


def render_table() -> str:
    """The whole of ``docs/parameters.md``."""
    rows = [f"| {_api(case)} | {case.title} | {SERVED[case.served]} | {case.note} |" for case in CASES]
    return "\n".join((*INTRODUCTION, *rows, ""))


def _api(case: Case) -> str:
    return f"`{case.path.removeprefix('/v1/').removeprefix('/inference/v1/')}`"


SERVED: Final = {PD: "P and D", LOCAL: "D alone", ERROR: "refused"}
INTRODUCTION: Final = (
    "# What each parameter does",
    "",
    "Every row is a request that `e2e/main/test_parameters.py` sends to a group and to an engine without P/D. Text,",
    "token ids, finish reasons, log probabilities, usage and errors are equal. Left out of the comparison: ids, time",
    "stamps and `cached_tokens` ([why](proxy.md#what-is-sent-to-p-and-d)). `make generate` writes this page.",
    "",
    "| API | request with | served by | |",
    "|---|---|---|---|",
)
