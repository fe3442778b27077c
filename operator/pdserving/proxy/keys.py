"""Who may ask: the API keys of a mounted file, one a line.

A key is looked up by its digest under a secret of this process. So the time that a look-up takes tells nothing of how
much of a guess was right, nor how long keys are, and it does not grow with their number.
"""

import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pdserving.proxy.deadlines import Wheel
from pdserving.proxy.errors import Failure
from pdserving.proxy.mounted import Watch

OPEN: Final = frozenset((b"/health", b"/ready"))
"""For load balancers, which have no key."""
BEARER: Final = b"bearer"

Header = tuple[bytes, bytes]


class ApiKeys:
    """Without a usable file everybody is refused; `problem` says why."""

    def __init__(self, path: Path, wheel: Wheel) -> None:
        self._path = path
        self._secret = os.urandom(blake2b.MAX_KEY_SIZE)
        self._digests: frozenset[bytes] = frozenset()
        self._watch = Watch(wheel, "API keys", [path], self._read)

    @property
    def problem(self) -> str:
        return self._watch.problem

    def _read(self) -> None:
        self._digests = frozenset()
        keys = [line for line in map(bytes.strip, self._path.read_bytes().splitlines()) if line]
        if not keys:
            raise ValueError(f"{self._path} holds none; write one a line")
        self._digests = frozenset(map(self._digest, keys))

    def _digest(self, key: bytes) -> bytes:
        return blake2b(key, key=self._secret).digest()

    def refuse(self, target: bytes, credentials: Iterable[Header]) -> Failure | None:
        """Why a request for this path is not served, by its headers `Authorization` and `x-api-key`; None: it is."""
        if target.partition(b"?")[0] in OPEN:
            return None
        given = [key for key in map(read_key, credentials) if key]
        if any(self._digest(key) in self._digests for key in given):
            return None
        if not self._digests:
            return Failure(401, "no_api_keys", "This server has no API keys yet and refuses everybody; tell its owner.")
        if given:
            return Failure(401, "invalid_api_key", "The API key is none of this server's; ask its owner for one.")
        text = "There is no API key in the request; send it as `Authorization: Bearer KEY` or `x-api-key: KEY`."
        return Failure(401, "missing_api_key", text)


def read_key(header: Header) -> bytes:
    """The key in a header, empty if its scheme is not Bearer."""
    name, value = header
    if name == b"x-api-key":
        return value.strip()
    scheme, _, key = value.strip().partition(b" ")
    return key.strip() if scheme.lower() == BEARER else b""
