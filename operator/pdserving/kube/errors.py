"""What the API server answers instead of the wanted, by meaning.

Each error carries the server's own reason and message: it is what a condition shows to the user.
"""

import json
from typing import Any


class KubeError(Exception):
    """Root of all errors of this package."""

    def __init__(self, message: str, *, reason: str = "Unavailable", status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.status = status


class NotFoundError(KubeError):
    """404: the object, or its kind."""


class ConflictError(KubeError):
    """409: a precondition failed, another manager owns a field, or the name is taken."""


class InvalidError(KubeError):
    """400, 413, 422: the same request will never succeed."""


class ForbiddenError(KubeError):
    """401, 403: no right, or admission refuses."""


class ThrottledError(KubeError):
    """429: later."""


class GoneError(KubeError):
    """410: the resource version of a list has expired."""


class UnavailableError(KubeError):
    """5xx: the API server or something behind it is broken."""


class UnreachableError(UnavailableError):
    """No answer at all, or none in time."""


UNKNOWN_FIELD = "failed to create typed patch object"
"""Server-side apply says so, with status 500, of a field that its schema lacks or knows with another type (watched on
Kubernetes 1.36). The same request will never succeed."""

_BY_STATUS: dict[int, type[KubeError]] = {
    400: InvalidError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    413: InvalidError,
    422: InvalidError,
    429: ThrottledError,
}


def parse_error(status: int, body: bytes) -> KubeError:
    """The error that an answer means; anything in front of the API server may answer without a Status object."""
    said = _read_status(body)
    reason = str(said.get("reason") or "") or f"HTTP{status}"
    message = str(said.get("message") or "") or body[:500].decode(errors="replace").strip() or f"HTTP {status}"
    if message.startswith(UNKNOWN_FIELD):
        return InvalidError(message.partition("): ")[2] or message, reason="Invalid", status=422)
    return _BY_STATUS.get(status, UnavailableError)(message, reason=reason, status=status)


def _read_status(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
