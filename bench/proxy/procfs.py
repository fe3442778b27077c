"""What a process costs, read from the kernel: CPU time of all its threads and children, memory, and the machine's."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def process_tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found.extend(int(child) for child in task.read_text().split())
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of all threads, those that have ended included, to the nanosecond.

    This is what clock_getcpuclockid(3) gives: the clock of process ``pid`` is ``~pid << 3 | 2`` on Linux.
    """
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def pss_kib(pids: Iterable[int]) -> int:
    """Proportional set size: resident memory, shared pages divided among their users. No kernel socket buffers."""
    return sum(_pss_kib(pid) for pid in pids)


def _pss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/smaps_rollup has no Pss line")


def busy_seconds(cores: Iterable[int]) -> float:
    """Time that the given cores spent on anything, the hypervisor's other guests (steal) included."""
    wanted = {f"cpu{core}" for core in cores}
    rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    return sum(_busy_ticks(row) for row in rows if row[0] in wanted) / TICKS_PER_SECOND


def _busy_ticks(row: list[str]) -> int:
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, row[1:9])
    return user + nice + system + irq + softirq + steal
