"""A client's request as the edge hands it on."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

BATCH: Final = 256

FORWARDED = frozenset(
    (b"authorization", b"traceparent", b"tracestate", b"baggage", b"user-agent", b"anthropic-version", b"x-api-key")
)
"""Headers that engines get. An allow-list: a list of forbidden ones would miss the next dangerous one."""

CREDENTIALS = frozenset((b"authorization", b"x-api-key"))
OTHERS = FORWARDED - CREDENTIALS
"""What engines get where the proxy itself checks keys: a key that opens the proxy is not theirs."""

_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


@dataclass(slots=True)
class Request:
    method: bytes = b""
    path: bytes = b""
    query: bytes = b""
    request_id: bytes = b""
    forwarded: bytes = b""
    """Header lines for engines."""
    body: bytes | bytearray = b""
    keep_alive: bool = True
    chunked_ok: bool = True
    """Whether the client speaks HTTP/1.1."""
    received: float = 0.0


def accept_request_id(given: bytes) -> bytes:
    """The client's own id if it is harmless in a header and a log line, else a new one."""
    return given if _ID.fullmatch(given) else make_id().encode()


def _draw_ids() -> Iterator[str]:
    while True:
        pool = os.urandom(16 * BATCH).hex()
        yield from (pool[start : start + 32] for start in range(0, 32 * BATCH, 32))


make_id: Callable[[], str] = partial(next, _draw_ids())
"""128 bits of the system's random source, in batches to save the call. Never from `random`: transfer ids are secrets,
and clients see enough request ids to predict what a Mersenne Twister says next."""
