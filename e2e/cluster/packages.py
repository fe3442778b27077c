"""Debian packages, installed only where the program is missing, and told by name."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster import cache, console, paths
from e2e.cluster.shell import ClusterError, run, search_path


def missing(wanted: Mapping[str, str]) -> list[str]:
    """Packages of the programs (names, or absolute paths of files) that this machine lacks."""
    return sorted({package for program, package in wanted.items() if not _present(program)})


def ensure(wanted: Mapping[str, str]) -> None:
    """Install what is missing; without root or apt-get, say what to install."""
    packages = missing(wanted)
    if not packages:
        return
    if os.geteuid() or not shutil.which("apt-get"):
        raise ClusterError(f"missing: {' '.join(packages)}; install them, or run this as root on Debian or Ubuntu")
    log = paths.CACHE / "logs" / "apt.log"
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with cache.lock("apt"), console.step(f"installing with apt-get: {' '.join(packages)}"):
        run("apt-get", "update", "-q", log=log, env=env)
        run("apt-get", "install", "-yq", "--no-install-recommends", *packages, log=log, env=env)


def ensure_unpacked(wanted: Mapping[str, str]) -> None:
    """Have the programs of packages without installing these."""
    packages = missing(wanted)
    if not packages:
        return
    if not shutil.which("apt-get"):
        raise ClusterError(f"missing: {' '.join(wanted)}; install it")
    log = paths.CACHE / "logs" / "apt.log"

    def unpack(target: Path) -> None:
        run("apt-get", "update", "-q", log=log)
        run("apt-get", "download", *packages, log=log, cwd=target)
        for archive in target.glob("*.deb"):
            run("dpkg-deb", "-x", archive, target, log=log)

    with console.step(f"unpacking into the cache, not installing: {' '.join(packages)}"):
        cache.ensure(paths.UNPACKED, unpack)


def _present(program: str) -> bool:
    if program.startswith("/"):
        return Path(program).exists()
    return shutil.which(program, path=search_path()) is not None
