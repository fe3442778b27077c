"""Medians, ratios and the verdict on the goals, as Markdown that can go into the documentation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from bench.proxy import scenarios
from bench.proxy.measure import Run
from bench.proxy.targets import DIRECT, FLOOR, OURS, ROUTER

# A run during which others used more of the two cores than this says nothing about latency; its CPU still counts.
NOISY_S = 0.5


class Results:
    """All runs of a session; every figure is the median over the repetitions of one target and scenario."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.targets = list(dict.fromkeys(run.target for run in runs))

    def _median(self, target: str, scenario: str, value: Callable[[Run], float], *, quiet: bool) -> float | None:
        runs = [r for r in self.runs if (r.target, r.scenario) == (target, scenario)]
        if quiet:
            runs = [r for r in runs if r.foreign_cpu <= NOISY_S]
        return median(map(value, runs)) if runs else None

    def cpu_per_request(self, target: str, scenario: str) -> float | None:
        """In µs."""
        return self._median(target, scenario, lambda r: r.cpu / r.requests * 1e6, quiet=False)

    def cpu_per_chunk(self, target: str, scenario: str) -> float | None:
        """In µs, less what the streams' requests themselves cost."""
        request = self.cpu_per_request(target, scenarios.SMALL.name)
        if request is None:
            return None
        return self._median(target, scenario, lambda r: (r.cpu * 1e6 - r.requests * request) / r.tokens, quiet=False)

    def requests_per_second(self, target: str, scenario: str) -> float | None:
        return self._median(target, scenario, lambda r: r.requests / r.wall, quiet=True)

    def added_latency(self, target: str, quantile: str) -> float | None:
        """In µs, over the same load sent straight to D."""
        name = scenarios.RATE_200.name
        base = self._median(DIRECT, name, lambda r: r.latency_us[quantile], quiet=True)
        own = self._median(target, name, lambda r: r.latency_us[quantile], quiet=True)
        return None if base is None or own is None else own - base

    def chunk_delay(self, target: str, scenario: str) -> float | None:
        """99th percentile in ms."""
        return self._median(target, scenario, lambda r: r.delay_us["p99"] / 1e3, quiet=True)

    def memory_per_stream(self, target: str, scenario: str) -> float | None:
        """In KiB."""
        return self._median(target, scenario, lambda r: (r.memory_open - r.memory_idle) / r.requests, quiet=False)


Figure = Callable[[Results, str], float | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure and its goal: at most ``of_router`` times vllm-router's and ``of_floor`` times nginx's."""

    title: str
    figure: Figure
    form: str = "{:,.1f}"
    of_router: float | None = None
    of_floor: float | None = None
    at_most: float | None = None


ROWS = (
    Row("CPU per request, small, µs", lambda r, t: r.cpu_per_request(t, "small"), of_router=0.5),
    Row("CPU per request, 16 KB, µs", lambda r, t: r.cpu_per_request(t, "16 KB"), of_router=0.45),
    Row("CPU per request, 1 MB, µs", lambda r, t: r.cpu_per_request(t, "1 MB"), "{:,.0f}", of_router=0.5),
    Row(
        "CPU per chunk, 500 streams, µs", lambda r, t: r.cpu_per_chunk(t, "500 streams"), of_router=0.75, of_floor=1.25
    ),
    Row(
        "CPU per chunk, 2,000 streams, µs",
        lambda r, t: r.cpu_per_chunk(t, "2000 streams"),
        of_router=0.75,
        of_floor=1.25,
    ),
    Row("added latency p50 at 200/s, µs", lambda r, t: r.added_latency(t, "p50"), "{:,.0f}", of_router=0.8),
    Row("added latency p99 at 200/s, µs", lambda r, t: r.added_latency(t, "p99"), "{:,.0f}", of_router=0.8),
    Row("chunk delay p99, 500 streams, ms", lambda r, t: r.chunk_delay(t, "500 streams"), "{:,.2f}", of_router=1.0),
    Row("chunk delay p99, 2,000 streams, ms", lambda r, t: r.chunk_delay(t, "2000 streams"), "{:,.2f}"),
    Row("memory per open stream, KiB", lambda r, t: r.memory_per_stream(t, "2000 streams"), at_most=12),
    Row("requests/s on one core, small", lambda r, t: r.requests_per_second(t, "small"), "{:,.0f}"),
)


def render(results: Results) -> Iterable[str]:
    targets = [t for t in results.targets if t != DIRECT]
    yield "| | " + " | ".join(targets) + f" | {OURS} / {ROUTER} | {OURS} / {FLOOR} | goal |"
    yield "|---" * (len(targets) + 4) + "|"
    for row in ROWS:
        yield _line(row, results, targets)


def _line(row: Row, results: Results, targets: Sequence[str]) -> str:
    cells = [_cell(row.figure(results, t), row.form) for t in targets]
    ratios = [_cell(_ratio(row, results, other), "{:.2f}") for other in (ROUTER, FLOOR)]
    return f"| {row.title} | {' | '.join([*cells, *ratios, _verdict(row, results)])} |"


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _ratio(row: Row, results: Results, other: str) -> float | None:
    ours, theirs = row.figure(results, OURS), row.figure(results, other)
    return ours / theirs if ours is not None and theirs else None


def _verdict(row: Row, results: Results) -> str:
    goals = [
        ("≤ {:g} × " + ROUTER, _ratio(row, results, ROUTER), row.of_router),
        ("≤ {:g} × " + FLOOR, _ratio(row, results, FLOOR), row.of_floor),
        ("≤ {:g}", row.figure(results, OURS), row.at_most),
    ]
    return ", ".join(_judged(form.format(limit), value, limit) for form, value, limit in goals if limit is not None)


def _judged(goal: str, value: float | None, limit: float) -> str:
    if value is None:
        return f"{goal}: not measured"
    return f"{goal}: {'met' if value <= limit else '**missed**'}"
