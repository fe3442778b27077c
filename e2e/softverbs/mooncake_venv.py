"""A Python with Mooncake's transfer engine in it, in the cache: 50 MB, made when the transfer check first runs."""

import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from e2e.cluster import cache, console, paths

WHEEL: Final = "mooncake-transfer-engine-non-cuda==0.3.13.post1"


def python() -> Path:
    folder = paths.CACHE / "softverbs" / WHEEL.replace("==", "-")
    return cache.ensure(folder, _install) / "bin" / "python"


def _install(folder: Path) -> None:
    console.say(f"installing {WHEEL}")
    venv.create(folder, with_pip=False, symlinks=True)
    target = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", target, WHEEL]
    subprocess.run(pip, check=True)
