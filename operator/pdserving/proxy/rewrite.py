"""One client's JSON body becomes the bodies for a prefill and a decode engine.

Only the top level is parsed; values stay bytes (`msgspec.Raw`), so that a prompt of a megabyte is copied, not read.
Duplicate keys: the last wins, and both engines get the body as we understood it, never as it came.

Facts (vLLM 0.32/0.33): P sends KV cache only for a request that ended by length; a surplus output token on P makes D
use wrong blocks; D's parameters are all or none (an incomplete set leaks D's blocks for ever); parameters from a client
can end an engine's process or make it fetch any URL.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from pdserving.proxy.errors import BadRequestError, Failure

Fields = dict[str, msgspec.Raw]

TRANSFER: Final = ("kv_transfer_params", "ec_transfer_params")
"""Never accepted from a client."""
NESTED: Final = ("vllm_xargs", "extra_args")
"""Objects that vLLM merges into the place where it looks for the same parameters."""

_decoder: Final = msgspec.json.Decoder(Fields)
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])
_encode: Final = msgspec.json.Encoder().encode

_ZERO, _ONE, _TRUE, _FALSE = (msgspec.Raw(text) for text in (b"0", b"1", b"true", b"false"))
_REMOTE_DECODE = b'{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"%b"}'

_ONE_TOKEN: Final[Fields] = {
    "max_tokens": _ONE,
    "min_tokens": _ONE,
    "ignore_eos": _TRUE,
    "n": _ONE,
    "stream": _FALSE,
}
_DROPPED_FOR_PREFILL: Final = frozenset(
    ("stop", "stop_token_ids", "stream_options", "logprobs", "top_logprobs", "prompt_logprobs", "echo", "best_of",
     "max_completion_tokens", "return_token_ids", "include_reasoning", "thinking_token_budget", "repetition_detection")
)  # fmt: skip
_SHAPES_FOR_DECODE: Final = ("n", "best_of", "use_beam_search", "echo", "prompt_logprobs", "prompt_embeds")
_HARMLESS: Final = (_ONE, _FALSE, msgspec.Raw(b"null"))


@dataclass(frozen=True, slots=True)
class Transfer:
    """What D must know to fetch a prompt's KV cache from P."""

    transfer_id: str
    engine_id: str
    bootstrap: str


@dataclass(slots=True)
class Prompt:
    """A parsed body. ``local_reason`` is set if its prompt can't be handed over: several share one transfer id."""

    fields: Fields
    streamed: bool
    local_reason: str | None
    estimate: int
    """Prompt tokens, roughly: four bytes each."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one API spells what the proxy must know. ``content``: the field that holds the prompt."""

    content: str
    prefill: Fields
    lists_prompts: bool = False


CHAT: Final = Dialect("messages", {**_ONE_TOKEN, "max_completion_tokens": _ONE})
COMPLETION: Final = Dialect("prompt", _ONE_TOKEN, lists_prompts=True)


def parse(dialect: Dialect, body: bytes) -> Prompt:
    """Raises `BadRequestError`."""
    fields = _decode(body)
    for name in TRANSFER:
        fields.pop(name, None)
    for name in NESTED:
        if name in fields:
            _clean_nested(fields, name)
    content = fields.get(dialect.content)
    return Prompt(
        fields=fields,
        streamed=fields.get("stream") == _TRUE,
        local_reason=_local_reason(dialect, fields),
        estimate=len(content) // 4 + 1 if content is not None else 1,
    )


def build_prefill_body(dialect: Dialect, prompt: Prompt, transfer_id: str) -> bytes:
    """One token, ended by length, not streamed: whatever shapes the prompt stays, whatever shapes the answer goes."""
    fields = {name: value for name, value in prompt.fields.items() if name not in _DROPPED_FOR_PREFILL}
    fields.update(dialect.prefill)
    fields["kv_transfer_params"] = msgspec.Raw(_REMOTE_DECODE % transfer_id.encode())
    return _encode(fields)


def build_decode_body(prompt: Prompt, transfer: Transfer | None) -> bytes:
    if transfer is None:
        return _encode(prompt.fields)
    params = {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "transfer_id": transfer.transfer_id,
        "remote_engine_id": transfer.engine_id,
        "remote_bootstrap_addr": transfer.bootstrap,
    }
    return _encode({**prompt.fields, "kv_transfer_params": params})


def _decode(body: bytes) -> Fields:
    try:
        if not body.isascii():
            body.decode()  # strings stay raw below, and no engine should see broken ones
        return _decoder.decode(body)
    except RecursionError:
        raise BadRequestError(Failure(400, "invalid_json", "The body is nested too deeply.")) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = f"The body is no JSON object: {error}. Send one JSON object with content-type application/json."
        raise BadRequestError(Failure(400, "invalid_json", text)) from None


def _clean_nested(fields: Fields, name: str) -> None:
    try:
        nested = _decoder.decode(fields[name])
    except (msgspec.DecodeError, RecursionError):
        return  # null or nonsense; the engine says so
    if any(nested.pop(key, None) is not None for key in TRANSFER):
        fields[name] = msgspec.Raw(_encode(nested))


def _local_reason(dialect: Dialect, fields: Fields) -> str | None:
    for name in _SHAPES_FOR_DECODE:
        value = fields.get(name)
        if value is not None and value not in _HARMLESS:
            return name
    if fields.get("max_tokens") == _ZERO:
        return "max_tokens"
    if dialect.lists_prompts and not _is_one_prompt(fields.get("prompt")):
        return "prompts"
    return None


def _is_one_prompt(prompt: msgspec.Raw | None) -> bool:
    """A text, a list of token ids, or a list with one of these."""
    if prompt is None:
        return False
    start = bytes(memoryview(prompt)[:64])
    if start.startswith(b'"'):
        return True
    inner = start[1:].lstrip()
    if not start.startswith(b"[") or not inner or inner[0] in b"]":
        return False
    if inner[0] in b'"[':
        return _count_items(prompt) == 1
    return True


def _count_items(prompt: msgspec.Raw) -> int:
    try:
        return len(_items.decode(prompt))
    except (msgspec.DecodeError, RecursionError):
        return 0
