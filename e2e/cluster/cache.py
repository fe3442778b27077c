"""Things that take long are made once for each content that decides them, and appear whole or not at all.

A build writes into `<name>.partial` and is renamed at the end, so an interrupted one can be run again; a lock keeps two
runs from the same work. The lock is the kernel's: it ends with the process that holds it.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import console, paths, versions


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold `name` for this process; say so if another one must be waited for."""
    path = paths.CACHE / "locks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.say(f"another run holds {path}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure(target: Path, build: Callable[[Path], None]) -> Path:
    """Return the folder `target`, made by `build` (which gets an empty folder to fill) if it is not there."""
    if target.exists():
        return target
    with lock(target.name):
        if not target.exists():
            partial = target.with_name(f"{target.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            build(partial)
            partial.rename(target)
    return target


def content_key(inputs: Iterable[Path]) -> str:
    """Names the content of files and folders, and the files' names; caches of Python do not count."""
    files = sorted(file for path in inputs for file in (path.rglob("*") if path.is_dir() else [path]))
    counted = [file for file in files if file.is_file() and "__pycache__" not in file.parts]
    return versions.digest(*(part for file in counted for part in (file.name, file.read_bytes())))
