"""The image in which a pod's namespaces live: one static program in one layer, written as a docker archive by hand."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_archive(program: Path, image: str, archive: Path) -> Path:
    """Write `image`, which runs `program` and nothing else, to the file `archive`."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(program, "pause", filter=_anonymous)
    config = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [image], "Layers": ["layer.tar"]}]
    files = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer.getvalue(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(archive, "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return archive


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    return info.replace(mtime=0, uid=0, gid=0, uname="", gname="", mode=0o755)
