"""What an engine's ``/metrics`` says of its load, of where its prompt tokens came from, and of what it sent.

vLLM counts prompt tokens by their source (0.32). Its counter of external prefix hits would not do: it is raised when a
fetch is planned, also where that then fails. A request's tokens are counted with its first output token, in the step
before the one that brings the second: so an answer of several tokens comes after its own count.
"""

import re
from dataclasses import dataclass
from typing import Final

from pdserving.proxy.http.fetch import fetch
from pdserving.proxy.pool import Engine

ANSWER_SECONDS: Final = 5.0

_SAMPLE: Final = re.compile(
    rb"^vllm:(prompt_tokens_by_source_total|num_requests_running|num_requests_waiting"
    rb"|mooncake_xfer_time_seconds_count|mooncake_xfer_time_seconds_sum|mooncake_bytes_transferred_sum)"
    rb"\{([^}]*)\} (\S+)$",
    re.MULTILINE,
)
_SOURCE: Final = re.compile(rb'source="(\w+)"')


@dataclass(frozen=True, slots=True)
class Reading:
    """Over all ranks of an engine; prompt tokens are those since it started."""

    fetched: float
    computed: float
    cached: float = 0.0
    """Found in its own prefix cache."""
    running: float = 0.0
    waiting: float = 0.0
    sent: float | None = None
    """Transfers that a prefill engine has sent; vLLM counts them since 0.33."""
    sent_bytes: float = 0.0
    sent_seconds: float = 0.0
    """What they took, added up, also where they ran at the same time."""

    @property
    def prompt_tokens(self) -> float:
        return self.fetched + self.computed + self.cached


def parse_reading(exposition: bytes) -> Reading | None:
    """None for an engine that does not count by source (vLLM before 0.32)."""
    sums: dict[bytes, float] = {}
    for name, labels, value in _SAMPLE.findall(exposition):
        source = _SOURCE.search(labels)
        key = source[1] if source else name
        sums[key] = sums.get(key, 0.0) + float(value)
    if not sums.keys() & {b"external_kv_transfer", b"local_compute"}:
        return None
    return Reading(
        fetched=sums.get(b"external_kv_transfer", 0.0),
        computed=sums.get(b"local_compute", 0.0),
        cached=sums.get(b"local_cache_hit", 0.0),
        running=sums.get(b"num_requests_running", 0.0),
        waiting=sums.get(b"num_requests_waiting", 0.0),
        sent=sums.get(b"mooncake_xfer_time_seconds_count"),
        sent_bytes=sums.get(b"mooncake_bytes_transferred_sum", 0.0),
        sent_seconds=sums.get(b"mooncake_xfer_time_seconds_sum", 0.0),
    )


async def read(engine: Engine) -> Reading | None:
    """Raises `FetchError`."""
    return parse_reading(await fetch(engine.endpoint, b"/metrics", timeout=ANSWER_SECONDS))
