"""Machines from `machines/*.txt`, unpacked below a temporary folder, and attempts that their files answer."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pdserving.preflight.observe import Attempts
from pdserving.preflight.result import Check, Result, Status
from pdserving.preflight.run import examine
from pdserving.preflight.wanted import parse_wanted

MACHINES = Path(__file__).parent / "machines"
ENVIRON = {"MC_FORCE_HCA": "1", "VLLM_HOST_IP": "10.0.0.1"}


def unpack(text: str, root: Path) -> None:
    for line in text.splitlines():
        name, arrow, target = line.partition(" -> ")
        name, _, content = (name, "", "") if arrow else line.partition(" = ")
        path = root / name
        if line.startswith("#"):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if arrow:
            path.symlink_to(target)
        else:
            path.write_text(content.replace("|", "\n") + "\n")


def open_recorded(path: Path) -> str:
    answer = path.read_text().strip() if path.exists() else "ENOENT"
    return "" if answer == "char" else os.strerror({"ENOENT": 2, "EPERM": 1, "EACCES": 13}[answer])


@dataclass
class Fakes:
    """What the kernel would answer to the attempts; a test changes what it is about."""

    memlock_limit: int | None = None
    memlock_error: str = ""
    shm_bytes: int = 64 << 20
    host_ip_error: str = ""

    def attempts(self) -> Attempts:
        return Attempts(
            open_device=open_recorded,
            lock_memory=lambda _size: self.memlock_error,
            memlock_limit=lambda: self.memlock_limit,
            file_system_bytes=lambda _path: self.shm_bytes,
            bind_address=lambda _address: self.host_ip_error,
        )


@dataclass(frozen=True)
class Verdicts:
    result: Result

    def __getitem__(self, name: str) -> Check:
        return next(check for check in self.result.checks if check.name == name)

    def named(self, status: Status) -> list[str]:
        return [check.name for check in self.result.checks if check.status is status]


Examine = Callable[..., Verdicts]


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[str], Path]:
    def unpacked(name: str) -> Path:
        unpack((MACHINES / f"{name}.txt").read_text(), tmp_path)
        return tmp_path

    return unpacked


@pytest.fixture
def examined(machine: Callable[[str], Path], fakes: Fakes) -> Examine:
    """`examined("roce-v2", MC_GID_INDEX="3")`: the verdicts on that machine with these variables too."""

    def examined(name: str, **environ: str) -> Verdicts:
        wanted = parse_wanted({**ENVIRON, **environ})
        return Verdicts(examine(wanted, root=machine(name), attempts=fakes.attempts()))

    return examined
