"""What a proxy pod mounts of the user's Secrets. The operator only names them: it has no right to read one.

They are mounted as whole volumes, never by `subPath` or as variables, since only then the kubelet puts a changed
Secret in place while the pod runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from pdserving.api.v1alpha1.proxy import ProxySpec

FOLDER: Final = PurePosixPath("/etc/pdserving")
API_KEY: Final = "api-key"
TLS: Final = "tls"
TLS_FILES: Final = {"--tls-cert-file": "tls.crt", "--tls-key-file": "tls.key"}
"""Keys of a Secret of type kubernetes.io/tls."""
REMEDIES: Final = {
    API_KEY: "create the Secret of spec.proxy.apiKey with that key, or correct the field",
    TLS: "create the Secret of spec.proxy.tls with tls.crt and tls.key, or correct the field",
}
"""By the volume that can't be mounted."""


@dataclass(frozen=True, slots=True)
class Mounted:
    """A Secret as the proxy finds it."""

    volume: str
    field: str
    """Of spec.proxy."""
    secret: str
    files: Mapping[str, str]
    """Option of the proxy -> key in the Secret, which is also the file's name."""

    @property
    def folder(self) -> PurePosixPath:
        return FOLDER / self.volume


def find_mounted(proxy: ProxySpec) -> list[Mounted]:
    found = []
    if proxy.api_key:
        found.append(Mounted(API_KEY, "apiKey", proxy.api_key.secret_name, {"--api-key-file": proxy.api_key.key}))
    if proxy.tls:
        found.append(Mounted(TLS, "tls", proxy.tls.secret_name, TLS_FILES))
    return found


def build_options(mounted: Mounted) -> list[str]:
    return [f"{option}={mounted.folder / name}" for option, name in mounted.files.items()]


def build_volume(mounted: Mounted) -> dict[str, Any]:
    """Its items are named, so that a key that the Secret lacks keeps the pod from starting."""
    items = [{"key": name, "path": name} for name in mounted.files.values()]
    return {"name": mounted.volume, "secret": {"secretName": mounted.secret, "items": items}}


def build_mount(mounted: Mounted) -> dict[str, Any]:
    return {"name": mounted.volume, "mountPath": str(mounted.folder), "readOnly": True}
