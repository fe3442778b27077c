"""A large body on its way in, read straight into its place.

The parser hands out copies of what it was given, and a body in parts is copied once more to be one. So once a large
body of known length has begun, the connection's protocol is this one until its last byte.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

LARGE: Final = 128 * 1024
SEGMENT: Final = 1024 * 1024
"""Memory is taken in such pieces, as bytes come: a length is only announced."""


class Owner(Protocol):
    """The connection's own protocol."""

    transport: asyncio.Transport

    def upload_continues(self) -> None: ...
    def uploaded(self, body: bytes | bytearray) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class Upload(asyncio.BufferedProtocol):
    __slots__ = ("_filled", "_left", "_owner", "_segments", "_view")

    def __init__(self, owner: Owner, size: int, begun: Sequence[bytes]) -> None:
        """``begun`` is what has come of the ``size`` bytes: not all of them."""
        self._owner = owner
        self._left = size
        self._segments: list[bytearray] = []
        self._grow(max(SEGMENT, sum(map(len, begun))))
        for part in begun:
            self._view[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            self._left -= len(part)

    def _grow(self, size: int) -> None:
        segment = bytearray(min(self._left, size))
        self._segments.append(segment)
        self._view = memoryview(segment)
        self._filled = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        self._left -= nbytes
        if not self._left:
            segments = self._segments
            self._owner.uploaded(segments[0] if len(segments) == 1 else b"".join(segments))
            return
        self._owner.upload_continues()
        if self._filled == len(self._view):
            self._grow(SEGMENT)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()
