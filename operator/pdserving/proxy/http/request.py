"""A client's request as the edge hands it on."""

import random
import re
from dataclasses import dataclass

FORWARDED = frozenset(
    (b"authorization", b"traceparent", b"tracestate", b"baggage", b"user-agent", b"anthropic-version", b"x-api-key")
)
"""Headers that engines get. An allow-list: a list of forbidden ones would miss the next dangerous one."""

_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


@dataclass(slots=True)
class Request:
    method: bytes = b""
    path: bytes = b""
    query: bytes = b""
    request_id: bytes = b""
    forwarded: bytes = b""
    """Header lines for engines."""
    body: bytes = b""
    keep_alive: bool = True
    chunked_ok: bool = True
    """Whether the client speaks HTTP/1.1."""
    received: float = 0.0


def accept_request_id(given: bytes) -> bytes:
    """The client's own id if it is harmless in a header and a log line, else a new one."""
    return given if _ID.fullmatch(given) else make_id().encode()


def make_id() -> str:
    """128 random bits: to be unique, not to be secret, so without a system call for each."""
    return f"{random.getrandbits(128):032x}"  # noqa: S311
