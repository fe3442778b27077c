"""The certificate of the client port, from a mounted Secret.

One context serves for the life of the process. A new certificate is loaded into it, for connections from then on; open
ones go on with theirs. It is tried in a context of its own before, because a pair that does not fit together would
leave the one in use without a key.
"""

import ssl
from pathlib import Path
from typing import Final

from pdserving.proxy.deadlines import Wheel
from pdserving.proxy.mounted import Watch

SHUTDOWN_SECONDS: Final = 10.0
"""After a close, for what is still to be sent and for the client's own close: many clients never send one."""


class Certificate:
    def __init__(self, certificate: Path, key: Path, wheel: Wheel) -> None:
        self._pair = certificate, key
        self.context = build_context()
        self.loaded = False
        """Whether there is one that clients get."""
        self._watch = Watch(wheel, f"TLS certificate {certificate}", [certificate, key], self._read)

    @property
    def problem(self) -> str:
        return self._watch.problem

    def _read(self) -> None:
        for context in (build_context(), self.context):
            context.load_cert_chain(*self._pair, password=_refuse_password)
        self.loaded = True


def _refuse_password() -> str:
    """Without it OpenSSL would ask on the terminal."""
    raise ValueError("the key is encrypted; use one without a password")


def build_context() -> ssl.SSLContext:
    """TLS 1.2 and newer, the ciphers of Python's defaults, HTTP/1.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context
