"""What clients read when something fails: the error object of their API, with what failed, where, and what to do.

Under ``/v1/messages`` that is Anthropic's, everywhere else OpenAI's: a client library makes its exceptions from it.
Engines are named by their pod, never by URL: clients have no business with addresses inside the cluster.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

REASONS = {
    200: b"OK", 204: b"No Content", 400: b"Bad Request", 401: b"Unauthorized", 403: b"Forbidden", 404: b"Not Found",
    405: b"Method Not Allowed", 408: b"Request Timeout", 413: b"Content Too Large", 415: b"Unsupported Media Type",
    422: b"Unprocessable Content", 429: b"Too Many Requests", 431: b"Request Header Fields Too Large",
    500: b"Internal Server Error", 501: b"Not Implemented", 502: b"Bad Gateway", 503: b"Service Unavailable",
    504: b"Gateway Timeout", 505: b"HTTP Version Not Supported",
}  # fmt: skip

_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES: Final = {
    **_TYPES, 403: "permission_error", 413: "request_too_large", 503: "overloaded_error", 504: "timeout_error",
}  # fmt: skip
_ANTHROPIC: Final = b"/v1/messages"


@dataclass(frozen=True, slots=True)
class Failure:
    """One way in which a request did not work. ``code`` is stable, for programs; ``message`` is for people."""

    status: int
    code: str
    message: str
    retry_after: int | None = None

    @property
    def type(self) -> str:
        return _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")

    def as_openai(self) -> bytes:
        content = {"message": self.message, "type": self.type, "param": None, "code": self.code}
        return msgspec.json.encode({"error": content})

    def as_anthropic(self) -> bytes:
        """It has no place for ``code``."""
        kind = _ANTHROPIC_TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "api_error")
        return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": self.message}})

    def encode_for(self, target: bytes) -> bytes:
        """In the form of the API to which this path belongs, with or without a query; of OpenAI's if to none."""
        if target.startswith(_ANTHROPIC) and target[len(_ANTHROPIC) :][:1] in {b"", b"/", b"?"}:
            return self.as_anthropic()
        return self.as_openai()


class BadRequestError(Exception):
    """The client's request can't be served; ``failure`` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
