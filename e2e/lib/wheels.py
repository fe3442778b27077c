"""A Python with one wheel in it, in the cache: for what only a few tests need and the environment should not carry."""

import subprocess
import sys
import venv
from pathlib import Path

from e2e.cluster import cache, console, paths


def python_with(requirement: str) -> Path:
    """`requirement` is pinned, such as ``grpcio==1.85.3``; it names the cached environment."""
    folder = paths.CACHE / "wheels" / requirement.replace("==", "-")
    return cache.ensure(folder, lambda partial: _install(partial, requirement)) / "bin" / "python"


def _install(folder: Path, requirement: str) -> None:
    console.say(f"installing {requirement}")
    venv.create(folder, with_pip=False, symlinks=True)
    target = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", target, requirement]
    subprocess.run(pip, check=True)
