"""One control group a node, in every hierarchy of the machine, under which its kubelet puts the pods."""

import errno
import os
import time
from pathlib import Path

from e2e.cluster.shell import ClusterError

TOP = Path("/sys/fs/cgroup")


def hierarchies(top: Path = TOP) -> list[Path]:
    """The one of cgroup v2, or every controller of v1 with the v2 tree that may lie beside them."""
    if (top / "cgroup.controllers").exists():
        return [top]
    return sorted(path for path in top.iterdir() if (path / "cgroup.procs").exists() and not path.is_symlink())


def create(name: str) -> None:
    for hierarchy in hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):  # in v1 a new group has none and can run nothing
            if (group / file).exists() and (hierarchy / file).exists():
                (group / file).write_text((hierarchy / file).read_text())


def remove(name: str, *, seconds: float = 30) -> None:
    """Remove the groups of a node whose processes have been killed, from the innermost outwards."""
    deadline = time.monotonic() + seconds
    for hierarchy in hierarchies():
        for group, _, _ in os.walk(hierarchy / name, topdown=False):
            _remove_one(Path(group), deadline)


def _remove_one(group: Path, deadline: float) -> None:
    """A group is busy until the kernel has buried the last of its processes."""
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise ClusterError(f"cannot remove {group}: {error}") from None
            time.sleep(0.05)
        else:
            return
