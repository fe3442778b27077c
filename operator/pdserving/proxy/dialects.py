"""How each API of vLLM spells what the proxy must know of a request; facts of vLLM 0.32/0.33.

P gets a body that always ends by length after one token, since only then it keeps the KV cache: EOS and stop tokens are
masked, everything that shapes the answer alone is dropped, everything that shapes the prompt stays.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

Fields = dict[str, msgspec.Raw]


def literal(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


ZERO, ONE, TRUE, FALSE, NULL = (literal(text) for text in ("0", "1", "true", "false", "null"))
_HARMLESS: Final = (ONE, FALSE, NULL)


@dataclass(frozen=True, slots=True)
class Dialect:
    content: str
    """The field that holds the prompt."""
    prefill: Fields
    """What P gets instead of the client's values."""
    dropped: frozenset[str]
    """What P does not get."""
    local: tuple[tuple[str, tuple[msgspec.Raw, ...]], ...]
    """Fields that make D serve the request alone, unless they have one of these values."""
    lists_prompts: bool = False
    nested: str | None = None
    """The object that holds the sampling parameters, if not the body itself."""


_ONE_TOKEN: Final[Fields] = {"max_tokens": ONE, "min_tokens": ONE, "ignore_eos": TRUE, "n": ONE, "stream": FALSE}
_ANSWER_ONLY: Final = frozenset(
    ("stop", "stop_token_ids", "stream_options", "logprobs", "top_logprobs", "prompt_logprobs", "echo", "best_of",
     "max_completion_tokens", "return_token_ids", "thinking_token_budget", "repetition_detection")
)  # fmt: skip
_SEVERAL: Final = (("n", _HARMLESS), ("best_of", _HARMLESS), ("use_beam_search", _HARMLESS))
"""Their children would share one transfer id, and only those scheduled in the same step would get KV cache."""
_WHOLE_PROMPT: Final = (("echo", _HARMLESS), ("prompt_logprobs", (NULL,)))
"""D computes the prompt anyway."""

CHAT: Final = Dialect(
    content="messages",
    prefill={**_ONE_TOKEN, "max_completion_tokens": ONE},
    dropped=_ANSWER_ONLY,
    local=(*_SEVERAL, *_WHOLE_PROMPT),
)

COMPLETION: Final = Dialect(
    content="prompt",
    prefill=_ONE_TOKEN,
    dropped=_ANSWER_ONLY,
    local=(*_SEVERAL, *_WHOLE_PROMPT, ("prompt_embeds", (NULL,))),
    lists_prompts=True,
)

RESPONSES: Final = Dialect(
    content="input",
    prefill={"max_output_tokens": ONE, "ignore_eos": TRUE, "stream": FALSE, "store": FALSE},
    dropped=frozenset(("stop", "stop_token_ids", "stream_options", "top_logprobs", "include", "max_tool_calls")),
    local=(("background", (FALSE, NULL)), ("previous_response_id", (NULL,)), ("conversation", (NULL,))),
)
"""State of earlier responses lives in one engine's memory, so these three are D's alone."""

MESSAGES: Final = Dialect(
    content="messages",
    prefill={"max_tokens": ONE, "stream": FALSE},
    dropped=frozenset(("stop_sequences",)),
    local=(),
)
"""There is no way to mask EOS; when P meets it the answer says so, and D serves alone."""

GENERATE: Final = Dialect(
    content="token_ids",
    prefill={"stream": FALSE},
    dropped=frozenset(("stream_options", "return_token_ids", "output_mode")),
    local=_SEVERAL,
    nested="sampling_params",
)
NESTED_PREFILL: Final[Fields] = {"max_tokens": ONE, "min_tokens": ONE, "ignore_eos": TRUE, "n": ONE}
