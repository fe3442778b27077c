"""The process that is a node: it owns a network, a mount and a pid namespace, and does nothing else.

Killing it makes the kernel end every process in the node, and with them its mounts and interfaces: nothing can leak,
also after a crash.
"""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import paths
from e2e.cluster.shell import run, wait_for


@dataclass(frozen=True, slots=True)
class Holder:
    """A holder recorded in `file`: the number and the command line of the process outside the namespaces."""

    file: Path

    def start(self) -> None:
        namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        argv = ["unshare", *namespaces, str(paths.program("pause"))]
        devnull = subprocess.DEVNULL
        process = subprocess.Popen(argv, start_new_session=True, stdin=devnull, stdout=devnull, stderr=devnull)
        self.file.write_text(json.dumps({"pid": process.pid, "argv": argv}))
        wait_for(lambda: Path(f"/proc/{self.pid}/exe").readlink().name == "pause", "the node's namespaces")

    @property
    def outer(self) -> int | None:
        """The recorded process, if it is still the one that we started: numbers are used again."""
        if not self.file.exists():
            return None
        record = json.loads(self.file.read_text())
        command = Path(f"/proc/{record['pid']}/cmdline")
        same = command.exists() and command.read_text().split("\0")[:-1] == record["argv"]
        return int(record["pid"]) if same else None

    @property
    def pid(self) -> int:
        """The first process inside the namespaces, as the machine numbers it."""
        return int(Path(f"/proc/{self.outer}/task/{self.outer}/children").read_text())

    def enter(self, *command: object) -> str:
        """Run a program inside the namespaces to its end."""
        return run("nsenter", "-t", self.pid, "-n", "-m", "-p", "--", *command)

    def runs(self, pid: int) -> bool:
        """Whether `pid`, numbered as inside, runs; one that has ended and is not yet buried has no command line."""
        if self.outer is None:
            return False
        command = Path(f"/proc/{self.pid}/root/proc/{pid}/cmdline")
        return command.exists() and bool(command.read_bytes())

    def kill(self) -> None:
        if (outer := self.outer) is not None:
            os.kill(outer, signal.SIGKILL)
