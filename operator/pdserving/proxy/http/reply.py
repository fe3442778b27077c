"""Answers that the proxy makes itself, as the bytes of one write."""

from dataclasses import dataclass

from pdserving.proxy.errors import REASONS, Failure

JSON = b"application/json"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    content_type: bytes = JSON
    headers: bytes = b""

    def encode(self, *, keep_alive: bool, with_body: bool = True) -> bytes:
        head = build_head(self.status, self.content_type, b"content-length: %d\r\n" % len(self.body), self.headers)
        end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
        return b"".join((head, end, self.body if with_body else b""))


def build_head(status: int, content_type: bytes, framing: bytes, headers: bytes) -> bytes:
    """A head without its last empty line."""
    reason = REASONS.get(status, b"Status")
    return b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\n%b%b" % (status, reason, content_type, framing, headers)


def build_failure(failure: Failure, target: bytes, headers: bytes = b"") -> Reply:
    """``target`` is the request's path, as far as it is known: it decides on the body's form."""
    if failure.status == 401:
        headers += b"www-authenticate: Bearer\r\n"
    if failure.retry_after is not None:
        headers += b"retry-after: %d\r\n" % failure.retry_after
    return Reply(failure.status, failure.encode_for(target), headers=headers)
