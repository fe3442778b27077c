"""Compiles the mock engines and the load generator into the cache, keyed by their source."""

import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

SOURCES = Path(__file__).parent / "c"
PROGRAMS = {"mock": ("mock.c", "judge.c", "http.c"), "load": ("load.c", "http.c")}
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")


def cache_dir() -> Path:
    """Where everything that can be made again is kept: ``PDSERVING_CACHE``, else the user's cache."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("PDSERVING_CACHE") or user / "pdserving") / "bench"


def build_programs() -> dict[str, Path]:
    """Return the paths of ``mock`` and ``load``, compiled unless this source has been compiled before."""
    files = sorted(SOURCES.iterdir())
    key = hashlib.sha256(b"".join(f.read_bytes() for f in files) + " ".join(FLAGS).encode()).hexdigest()[:12]
    folder = cache_dir() / "bin" / key
    folder.mkdir(parents=True, exist_ok=True)
    return {name: _compile(sources, folder / name) for name, sources in PROGRAMS.items()}


def _compile(sources: Iterable[str], target: Path) -> Path:
    if not target.exists():
        fresh = target.with_suffix(f".{os.getpid()}")
        subprocess.run(["gcc", *FLAGS, "-o", fresh, *(SOURCES / name for name in sources)], check=True)
        fresh.rename(target)
    return target
