"""One measured run: a fresh proxy, a warm-up, the load, and the proof that every request went the right way."""

import resource
import time
from dataclasses import dataclass
from typing import Any

from bench.proxy.processes import Cores, InvalidRunError, Load, Mock, free_ports, running_mock, running_target
from bench.proxy.procfs import busy_seconds, cpu_seconds, process_tree, pss_kib
from bench.proxy.scenarios import Scenario
from bench.proxy.targets import Legs, Target


@dataclass(frozen=True, slots=True)
class Run:
    """What one run cost. Times in seconds unless the name says otherwise; memory in KiB."""

    target: str
    scenario: str
    cpu: float
    foreign_cpu: float
    wall: float
    requests: int
    tokens: int
    latency_us: dict[str, float]
    delay_us: dict[str, float]
    memory_idle: int = 0
    memory_open: int = 0


def measure(target: Target, scenario: Scenario, cores: Cores) -> Run:
    """Raise InvalidRunError unless every answer and every leg at the engines was right."""
    ports = free_ports()
    with running_mock(ports, scenario.itl_us, cores) as mock, running_target(target, ports, cores) as pid:
        port = ports.proxy if pid else ports.decode
        warm = checked(Load(port, scenario.warm_up(), cores).finish())
        run, result = _timed(target, scenario, port, pid, mock, cores)
    probes = 1 if pid else 0
    check_legs(target.legs, mock.counters, probes + warm["requests"] + result["requests"] + result["cancelled"])
    return run


def _timed(
    target: Target, scenario: Scenario, port: int, pid: int | None, mock: Mock, cores: Cores
) -> tuple[Run, dict[str, Any]]:
    tree = process_tree(pid) if pid else []
    idle = pss_kib(tree)
    before = _clocks(tree, mock, cores)
    load = Load(port, scenario, cores)
    if scenario.stream:
        load.wait_until_open()
    opened = pss_kib(tree) if scenario.stream else 0
    result = checked(load.finish())
    spent = [after - start for after, start in zip(_clocks(tree, mock, cores), before, strict=True)]
    busy, cpu, mine = spent
    run = Run(
        target=target.name,
        scenario=scenario.name,
        cpu=cpu,
        foreign_cpu=max(busy - cpu - mine, 0.0),
        wall=result["seconds"],
        requests=result["requests"],
        tokens=result["tokens"],
        latency_us=result["latency_us"],
        delay_us=result["delay_us"],
        memory_idle=idle,
        memory_open=opened,
    )
    return run, result


def _clocks(tree: list[int], mock: Mock, cores: Cores) -> tuple[float, float, float]:
    """Time spent by: anybody on the two cores; the proxy; mock, load generator and this driver."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    mine = cpu_seconds([mock.process.pid]) + children.ru_utime + children.ru_stime + time.process_time()
    return busy_seconds((cores.proxy, cores.load)), cpu_seconds(tree), mine


def checked(result: dict[str, Any]) -> dict[str, Any]:
    """Return a load generator's result; raise if one answer of it was wrong."""
    wrong = result.get("errors", 1) + result.get("unanswered", 0)
    if wrong:
        raise InvalidRunError(f"{wrong} of the answers were wrong or missing: {result.get('first_error')}")
    return result


def check_legs(legs: Legs, counters: dict[str, Any], requests: int) -> None:
    """Every request must have reached the engines as ``legs`` says, exactly once, and nothing else."""
    nothing = {"transfer": 0, "room": 0, "plain": 0, "bad": 0}
    wanted = nothing | {legs: requests}
    seen = counters["prefill"], counters["decode"]
    if seen != (nothing if legs == "plain" else wanted, wanted):
        raise InvalidRunError(f"{requests} requests became these legs at P and D: {seen}")
    if not counters["same_transfers"] or counters["duplicates"]:
        raise InvalidRunError(f"P and D saw different or repeated transfer ids: {counters}")
