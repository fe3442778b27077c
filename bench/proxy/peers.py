"""Fetches the peers: routers from PyPI into a virtual environment, nginx from Debian.

Nothing is installed on the machine: the nginx package is unpacked into the cache, so no service is ever started.
"""

import shutil
import subprocess
import venv
from pathlib import Path

from bench.proxy.build import cache_dir

ROUTERS = ("vllm-router==0.1.17", "sglang-router==0.3.2")
# What the two wheels import at start even for their Rust path. Their full dependencies (torch among them) are not
# needed, hence --no-deps for the wheels themselves.
IMPORTED = ("aiohttp", "fastapi", "orjson", "requests", "setproctitle", "uvicorn")


def install_routers() -> Path:
    """Return the ``bin`` folder of a virtual environment that holds both routers."""
    folder = cache_dir() / "peers"
    done = folder / f"installed-{'-'.join(ROUTERS)}"
    if not done.exists():
        venv.create(folder, with_pip=True, symlinks=True, clear=True)
        pip = [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *IMPORTED], check=True)
        subprocess.run([*pip, "--no-deps", *ROUTERS], check=True)
        done.touch()
    return folder / "bin"


def install_nginx() -> Path:
    """Return an nginx binary: the machine's own, else one unpacked from the Debian package."""
    installed = shutil.which("nginx")
    if installed:
        return Path(installed)
    folder = cache_dir() / "nginx"
    binary = folder / "usr/sbin/nginx"
    if not binary.exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ["-qq", "-o", "APT::Sandbox::User=root"]  # the sandbox user may not write to the cache
        subprocess.run(["apt-get", *options, "download", "nginx"], cwd=folder, check=True)
        package = next(folder.glob("nginx_*.deb"))
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return binary
