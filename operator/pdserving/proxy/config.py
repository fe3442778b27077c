"""Everything that can be set, once, with the defaults of the API (``spec.proxy``). All times are seconds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FailurePolicy = Literal["RecomputeOnDecode", "Fail"]


@dataclass(frozen=True, slots=True)
class Config:
    on_prefill_failure: FailurePolicy = "RecomputeOnDecode"
    max_retries: int = 1
    """Per leg, and only before the client got a byte."""
    prefill_timeout: float = 300.0
    first_byte_timeout: float = 60.0
    """Of streamed answers: a decode engine sends the head of any other answer when it has generated all of it."""
    idle_timeout: float = 120.0
    request_timeout: float = 3600.0
    drain_timeout: float = 30.0
    max_in_flight: int = 4096
    max_body_bytes: int = 64 * 1024 * 1024
    max_local_prefills: int = 4
    """Those that are the answer to a failure; prompts that D serves by their shape are not counted."""
    local_prefill_below_tokens: int = 0
    """Shorter prompts go to D alone; 0: none."""
    verify_interval: float = 0.0
    """Between two canaries of an engine; 0: none are run."""
    access_log: bool = False
    api_key_file: Path | None = None
    """Keys, one a line, of which clients must show one; None: everybody is served."""
    tls_cert_file: Path | None = None
    """With `tls_key_file`: the client port speaks TLS."""
    tls_key_file: Path | None = None

    header_timeout: float = 15.0
    """For a request's head, and again for each pause within its body."""
    handshake_timeout: float = 10.0
    keep_alive_timeout: float = 75.0
    max_head_bytes: int = 32 * 1024
    connect_timeout: float = 3.0
    query_interval: float = 2.0
