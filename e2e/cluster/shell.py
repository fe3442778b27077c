"""Starting programs and waiting for them; a failure says what was run and shows the end of its output."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.cluster import paths


class ClusterError(Exception):
    """Something that the user must know; the message is all that is printed."""


def run(*args: object, log: Path | None = None, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program to its end and return its output; with `log`, append it there and return its last lines."""
    command, env = [str(arg) for arg in args], dict(env or os.environ, PATH=search_path(env or os.environ))
    if log is None:
        done = subprocess.run(command, check=False, text=True, stdout=-1, stderr=subprocess.STDOUT, env=env, cwd=cwd)
        output = done.stdout
    else:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            done = subprocess.run(command, check=False, text=True, stdout=file, stderr=file, env=env, cwd=cwd)
        output = tail(log, 15)
    if done.returncode:
        where = f" (all of it in {log})" if log else ""
        raise ClusterError(f"`{' '.join(command[:6])}` exited with {done.returncode}{where}:\n{output}")
    return output


def search_path(env: Mapping[str, str] = os.environ) -> str:
    """The caller's PATH, the places of administration that a user's PATH lacks, and what we unpacked ourselves."""
    return f"{env.get('PATH', '')}:/usr/sbin:/sbin:{paths.UNPACKED / 'usr/bin'}"


def tail(log: Path, lines: int) -> str:
    """The last lines of a file that may not exist."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""


def wait_for(ready: Callable[[], object], what: str, *, seconds: float = 60) -> None:
    """Poll until `ready` returns something true; what it raises meanwhile is told if the deadline passes."""
    deadline = time.monotonic() + seconds
    last: Exception | None = None
    while time.monotonic() < deadline:
        try:
            if ready():
                return
        except Exception as error:  # noqa: BLE001 - not there yet, in whatever way
            last = error
        time.sleep(0.05)
    raise ClusterError(f"{what}: not there after {seconds:.0f} s. {last or ''}".rstrip())
