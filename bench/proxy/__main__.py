"""The driver: every target and scenario in turn, forth and back, then the table.

Exits 1 when a run was invalid, 0 otherwise: a missed goal is a figure in the table, not an error.
"""

import argparse
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.proxy import scenarios
from bench.proxy.measure import Run, measure
from bench.proxy.processes import Cores, InvalidRunError
from bench.proxy.report import NOISY_S, Results, render
from bench.proxy.scenarios import Scenario
from bench.proxy.soak import soak
from bench.proxy.targets import BUILDERS, OURS, Target, build_targets, default_python


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every process started here is ended
    options = _parse_arguments()
    cores = _choose_cores(options)
    targets = build_targets(options.targets, options.python)
    loads = [s for s in scenarios.ALL if not options.scenarios or s.name in options.scenarios]
    if options.quick:
        loads = [scenarios.quick(each) for each in loads]
    runs, problems = _measure_all(targets, loads, options)
    print(*render(Results(runs)), sep="\n")
    if options.soak:
        problems += _soak([t for t in targets if t.name == OURS], options.soak, cores)
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(run) for run in runs], indent=1))
    for problem in problems:
        print(f"INVALID {problem}", file=sys.stderr)
    return 1 if problems else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.proxy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short repetition: minutes, for trends only")
    parser.add_argument("--targets", nargs="+", choices=BUILDERS, default=list(BUILDERS), help="default: all")
    parser.add_argument("--scenarios", nargs="+", choices=[s.name for s in scenarios.ALL], help="default: all")
    parser.add_argument("--repetitions", type=int, help="default 3, with --quick 1")
    parser.add_argument("--attempts", type=int, help="at a run that other work disturbs; default 3, with --quick 1")
    parser.add_argument("--soak", type=int, metavar="N", help="also: memory after N requests and N/10 cancelled ones")
    parser.add_argument(
        "--cores", type=int, nargs=2, default=(0, 1), help="proxy's, engines' and clients'; default 0 1"
    )
    parser.add_argument("--realtime", action="store_true", help="run ahead of all other work (a busy machine; root)")
    parser.add_argument("--python", default=default_python(), help="interpreter that runs pdserving")
    parser.add_argument("--json", type=Path, help="also write every run to this file")
    options = parser.parse_args()
    options.repetitions = options.repetitions or (1 if options.quick else 3)
    options.attempts = options.attempts or (1 if options.quick else 3)
    if not set(options.cores) <= os.sched_getaffinity(0):
        parser.error(f"cores {options.cores} are not both usable here; two cores are needed")
    return options


def _choose_cores(options: argparse.Namespace) -> Cores:
    proxy, load = options.cores
    return Cores(proxy, load, realtime=options.realtime)


def _in_turn(
    targets: Sequence[Target], loads: Sequence[Scenario], repetitions: int
) -> Iterator[tuple[Target, Scenario]]:
    """A..Z, Z..A, A..Z: a machine that gets slower or faster meanwhile is unfair to nobody."""
    for repetition in range(repetitions):
        for load in loads:
            yield from ((target, load) for target in (targets if repetition % 2 == 0 else reversed(targets)))


def _measure_all(
    targets: Sequence[Target], loads: Sequence[Scenario], options: argparse.Namespace
) -> tuple[list[Run], list[str]]:
    runs, problems = [], []
    for target, load in _in_turn(targets, loads, options.repetitions):
        try:
            runs.append(_quiet_run(target, load, _choose_cores(options), options.attempts))
        except InvalidRunError as error:
            problems.append(f"{target.name}, {load.name}: {error}")
            print(problems[-1], file=sys.stderr)
    return runs, problems


def _quiet_run(target: Target, load: Scenario, cores: Cores, attempts: int) -> Run:
    """Return the least disturbed of at most ``attempts`` runs; the first quiet one ends the search."""
    best: Run | None = None
    while attempts and (best is None or best.foreign_cpu > NOISY_S):
        run = measure(target, load, cores)
        _show(run)
        best = min((each for each in (run, best) if each), key=lambda each: each.foreign_cpu)
        attempts -= 1
    assert best is not None
    return best


def _show(run: Run) -> None:
    cost = f"{run.requests:7} requests, {run.cpu / run.requests * 1e6:8.1f} µs CPU each, {run.wall:5.1f} s"
    tails = f"p99 {run.latency_us['p99']:9.0f} µs, chunk p99 {run.delay_us['p99']:7.0f} µs"
    noise = f"foreign CPU {run.foreign_cpu:.2f} s{' (noisy)' if run.foreign_cpu > NOISY_S else ''}"
    print(f"{run.target:14} {run.scenario:13} {cost}, {tails}, {noise}", file=sys.stderr)


def _soak(targets: Sequence[Target], requests: int, cores: Cores) -> list[str]:
    problems = []
    for target in targets:
        try:
            for stage in soak(target, requests, cores):
                print(
                    f"{target.name}: {stage.after_a_tenth:,} KiB after {stage.count // 10:,} {stage.kind}, "
                    f"{stage.after_all:,} KiB after {stage.count:,}: {'flat' if stage.flat else '**grows**'}"
                )
        except InvalidRunError as error:
            problems.append(f"{target.name}, soak: {error}")
    return problems


if __name__ == "__main__":
    sys.exit(main())
