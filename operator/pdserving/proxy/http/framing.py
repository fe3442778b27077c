"""Where an engine's answer ends, and where it may be cut.

The proxy relays bytes as they come, chunk framing included. So it only counts: `feed` says how many of the bytes
belong to this message, `boundary` up to where they are whole chunks. Cutting only there lets it add an error event of
its own when an engine dies, instead of a silent truncation.
"""

import re
from functools import lru_cache
from typing import Final, Protocol

MAX_HEAD = 64 * 1024
MAX_SIZE_LINE = 256

_FIELDS: Final = re.compile(
    rb"\r\n(content-length|content-type|transfer-encoding|connection):[ \t]*([^\r\n]*[^\r\n\t ])", re.IGNORECASE
)
"""One search of the whole head in C: half the cost of a find for each field."""


class FramingError(Exception):
    """The engine does not speak HTTP/1.1."""


class Head:
    """Status line and the few headers of an answer that the proxy needs."""

    __slots__ = ("chunked", "content_type", "keep_alive", "length", "status")

    def __init__(self, raw: bytes) -> None:
        if not raw.startswith(b"HTTP/1.") or not raw[9:12].isdigit():
            raise FramingError("no HTTP/1.x status line")
        self.status = int(raw[9:12])
        fields = {name.lower(): value for name, value in _FIELDS.findall(raw)}
        self.content_type = fields.get(b"content-type", b"")
        self.chunked = b"chunked" in fields.get(b"transfer-encoding", b"").lower()
        self.length = None if self.chunked else _read_length(fields.get(b"content-length"))
        self.keep_alive = raw[7] == ord("1") and b"close" not in fields.get(b"connection", b"").lower()


@lru_cache(maxsize=256)
def parse_head(raw: bytes) -> Head:
    """A busy engine says the same for a second: only its date and the length of an answer differ."""
    return Head(raw)


def _read_length(value: bytes | None) -> int | None:
    if value is None:
        return None
    if not value.isdigit():
        raise FramingError("content-length is no number")
    return int(value)


class Body(Protocol):
    done: bool
    boundary: int

    def feed(self, data: bytes) -> int:
        """Count ``data``; returns how many of its bytes belong to this message."""
        ...


class SizedBody:
    __slots__ = ("boundary", "done", "left")

    def __init__(self, length: int) -> None:
        self.left = length
        self.done = length == 0
        self.boundary = 0

    def feed(self, data: bytes) -> int:
        used = self.boundary = min(len(data), self.left)
        self.left -= used
        self.done = self.left == 0
        return used


class UnsizedBody:
    """Ends when the engine closes the connection."""

    __slots__ = ("boundary", "done")

    def __init__(self) -> None:
        self.done = False
        self.boundary = 0

    def feed(self, data: bytes) -> int:
        self.boundary = len(data)
        return len(data)


_SIZES: Final = {b"%x" % size: size for size in range(1, 1024)}
"""Chunk sizes as engines write them: a lookup is half of parsing."""


class ChunkedBody:
    __slots__ = ("_last", "_left", "_line", "boundary", "done")

    def __init__(self) -> None:
        self._left = 0
        """Bytes of the current chunk still to come, its CRLF included."""
        self._line = b""
        """The beginning of a size or trailer line whose end has not come."""
        self._last = False
        """The chunk of size 0 has come; only trailers follow."""
        self.boundary = 0
        """Up to here the data of the last `feed` are whole chunks."""
        self.done = False

    def feed(self, data: bytes) -> int:
        position, size = 0, len(data)
        if not self._left and not self._line and self._is_one_chunk(data, size):
            self.boundary = size
            return size
        self.boundary = 0
        while position < size and not self.done:
            if self._left:
                step = min(self._left, size - position)
                self._left -= step
                position += step
                if not self._left:
                    self.boundary = position
                continue
            end = data.find(b"\n", position)
            if end < 0:
                self._keep(data[position:])
                return size
            line = self._line + data[position:end]
            self._line = b""
            position = end + 1
            self._take(line.rstrip(b"\r"))
        if self.done:
            self.boundary = position
        return position

    def _is_one_chunk(self, data: bytes, size: int) -> bool:
        """Nearly always an engine's token arrives as just that."""
        end = data.find(b"\r\n", 0, 10)
        return end > 0 and not self._last and size - end - 4 == _SIZES.get(data[:end])

    def _keep(self, part: bytes) -> None:
        self._line += part
        if len(self._line) > MAX_SIZE_LINE:
            raise FramingError("endless chunk size")

    def _take(self, line: bytes) -> None:
        if self._last:
            self.done = not line
            return
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError as error:
            raise FramingError("bad chunk size") from error
        if size < 0:
            raise FramingError("bad chunk size")
        self._last = size == 0
        self._left = size + 2 if size else 0


def choose_body(head: Head) -> Body:
    if head.status in {204, 304}:
        return SizedBody(0)
    if head.chunked:
        return ChunkedBody()
    return UnsizedBody() if head.length is None else SizedBody(head.length)


def dechunk(data: bytes) -> bytes:
    """The content of whole chunks; the last chunk and trailers end it."""
    parts, position = [], 0
    while position < len(data):
        end = data.index(b"\n", position)
        size = int(data[position:end].partition(b";")[0], 16)
        if size == 0:
            break
        parts.append(data[end + 1 : end + 1 + size])
        position = end + 1 + size + 2
    return b"".join(parts)


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


LAST_CHUNK = b"0\r\n\r\n"
