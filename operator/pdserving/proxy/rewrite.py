"""One client's JSON body becomes the bodies for a prefill and a decode engine.

Only the top level is parsed; values stay bytes (`msgspec.Raw`), so that a prompt of a megabyte is copied, not read.
Duplicate keys: the last wins, and both engines get the body as we understood it, never as it came.

Transfer parameters from a client can end an engine's process or make it fetch any URL, so they are removed wherever
vLLM would look for them. D's are all or none: an incomplete set leaks D's blocks for ever.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from pdserving.proxy.dialects import NESTED_PREFILL, NULL, TRUE, ZERO, Dialect, Fields
from pdserving.proxy.errors import BadRequestError, Failure
from pdserving.proxy.http.upstream import Payload

TRANSFER: Final = ("kv_transfer_params", "ec_transfer_params")
EXTRAS: Final = ("vllm_xargs", "extra_args")
"""Objects that vLLM merges into the place where it looks for the same parameters."""
_SUSPECT: Final = frozenset((*TRANSFER, *EXTRAS))

LARGE: Final = 64 * 1024

_decoder: Final = msgspec.json.Decoder(Fields)
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])
_encode: Final = msgspec.json.Encoder().encode

_NESTED_DROPPED: Final = frozenset(("stop", "stop_token_ids", "logprobs", "prompt_logprobs", "thinking_token_budget"))
_REMOTE_DECODE: Final = b'{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"%b"}'


@dataclass(frozen=True, slots=True)
class Transfer:
    """What D must know to fetch a prompt's KV cache from P."""

    transfer_id: str
    engine_id: str
    bootstrap: str


@dataclass(slots=True)
class Prompt:
    """A parsed body. ``local_reason`` is the field for which D must serve it alone."""

    fields: Fields
    nested: Fields
    """The sampling parameters, where an API keeps them apart."""
    streamed: bool
    local_reason: str | None
    estimate: int
    """Prompt tokens, roughly: four bytes each."""
    large: str | None
    """The field with the prompt, if that is too large to be copied for each engine."""


def parse(dialect: Dialect, body: bytes | bytearray) -> Prompt:
    """Raises `BadRequestError`."""
    fields = _decode(body)
    _clean(fields)
    nested: Fields = {}
    if dialect.nested is not None and dialect.nested in fields:
        nested = _parse_nested(fields, dialect.nested)
    content = fields.get(dialect.content)
    size = len(content) if content is not None else 0
    return Prompt(
        fields=fields,
        nested=nested,
        streamed=fields.get("stream") == TRUE,
        local_reason=_find_local_reason(dialect, nested or fields, content),
        estimate=size // 4 + 1,
        large=dialect.content if size >= LARGE else None,
    )


def build_prefill_body(dialect: Dialect, prompt: Prompt, transfer_id: str) -> Payload:
    """One token, ended by length, not streamed."""
    fields = _without(prompt.fields, dialect.dropped)
    fields.update(dialect.prefill)
    if dialect.nested is not None:
        nested = _without(prompt.nested, _NESTED_DROPPED)
        nested.update(NESTED_PREFILL)
        fields[dialect.nested] = msgspec.Raw(_encode(nested))
    fields["kv_transfer_params"] = msgspec.Raw(_REMOTE_DECODE % transfer_id.encode())
    return _build(fields, prompt.large)


def build_decode_body(prompt: Prompt, transfer: Transfer | None) -> Payload:
    if transfer is None:
        return _build(prompt.fields, prompt.large)
    params = msgspec.Raw(_encode(build_decode_params(transfer)))
    return _build({**prompt.fields, "kv_transfer_params": params}, prompt.large)


def _build(fields: Fields, large: str | None) -> Payload:
    """A large prompt is sent from where it is, between two small pieces."""
    if large is None:
        return (_encode(fields),)
    small = _encode({name: value for name, value in fields.items() if name != large})
    comma = b"," if len(small) > 2 else b""
    return small[:-1] + comma + b'"%b":' % large.encode(), memoryview(fields[large]), b"}"


def build_decode_params(transfer: Transfer) -> dict[str, object]:
    """All five, always."""
    return {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "transfer_id": transfer.transfer_id,
        "remote_engine_id": transfer.engine_id,
        "remote_bootstrap_addr": transfer.bootstrap,
    }


def _without(fields: Fields, dropped: frozenset[str]) -> Fields:
    if dropped.isdisjoint(fields):
        return fields.copy()
    return {name: value for name, value in fields.items() if name not in dropped}


def _decode(body: bytes | bytearray) -> Fields:
    try:
        if not body.isascii():
            body.decode()  # strings stay raw below, and no engine should see broken ones
        return _decoder.decode(body)
    except RecursionError:
        raise BadRequestError(Failure(400, "invalid_json", "The body is nested too deeply.")) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = f"The body is no JSON object: {error}. Send one JSON object in UTF-8."
        raise BadRequestError(Failure(400, "invalid_json", text)) from None


def _clean(fields: Fields) -> None:
    """Remove transfer parameters, also where vLLM merges them in."""
    if _SUSPECT.isdisjoint(fields):
        return
    for name in TRANSFER:
        fields.pop(name, None)
    for name in EXTRAS:
        if name in fields:
            extras = _decode_object(fields, name)
            if extras.keys() & set(TRANSFER):
                fields[name] = msgspec.Raw(_encode(_without(extras, frozenset(TRANSFER))))


def _parse_nested(fields: Fields, name: str) -> Fields:
    nested = _decode_object(fields, name)
    _clean(nested)
    fields[name] = msgspec.Raw(_encode(nested))
    return nested


def _decode_object(fields: Fields, name: str) -> Fields:
    if fields[name] == NULL:
        return {}
    try:
        return _decoder.decode(fields[name])
    except (msgspec.DecodeError, RecursionError):
        text = f"{name}: no JSON object; send an object or leave it out."
        raise BadRequestError(Failure(400, "invalid_parameter", text)) from None


def _find_local_reason(dialect: Dialect, fields: Fields, content: msgspec.Raw | None) -> str | None:
    for name, allowed in dialect.local:
        if name in fields and fields[name] not in allowed:
            return name
    if fields.get("max_tokens") == ZERO:
        return "max_tokens"
    if dialect.lists_prompts and not _is_one_prompt(content):
        return "prompts"
    return None


def _is_one_prompt(prompt: msgspec.Raw | None) -> bool:
    """A text, a list of token ids, or a list with one of these."""
    if prompt is None:
        return False
    start = bytes(memoryview(prompt)[:64])
    if start.startswith(b'"'):
        return True
    first = start[1:].lstrip()[:1]
    if first in {b'"', b"["}:
        return _count_items(prompt) == 1
    return start.startswith(b"[") and first.isdigit()


def _count_items(prompt: msgspec.Raw) -> int:
    try:
        return len(_items.decode(prompt))
    except (msgspec.DecodeError, RecursionError):
        return 0
