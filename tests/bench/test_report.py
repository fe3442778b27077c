"""Figures are medians over repetitions, latency comes from quiet runs only, and a goal is met, missed or unknown."""

from dataclasses import replace

from bench.proxy.measure import Run
from bench.proxy.report import Results, render

RUN = Run(
    target="pdserving",
    scenario="small",
    cpu=0.4,
    foreign_cpu=0.0,
    wall=1.0,
    requests=10_000,
    tokens=0,
    latency_us={"p50": 300.0, "p99": 900.0},
    delay_us={"p50": 0.0, "p99": 0.0},
)


def of(target: str, cpu: float) -> Run:
    return replace(RUN, target=target, cpu=cpu)


def goal(runs: list[Run], title: str) -> str:
    line = next(line for line in render(Results(runs)) if title in line)
    return line.rstrip(" |").rpartition("|")[2].strip()


def test_cpu_is_the_median_of_the_repetitions() -> None:
    results = Results([of("pdserving", 0.3), of("pdserving", 0.4), of("pdserving", 9.0)])
    assert results.cpu_per_request("pdserving", "small") == 40.0


def test_a_chunk_does_not_pay_for_its_request() -> None:
    stream = replace(RUN, scenario="500 streams", cpu=1.02, requests=500, tokens=100_000)
    assert Results([RUN, stream]).cpu_per_chunk("pdserving", "500 streams") == 10.0


def test_latency_of_a_disturbed_run_is_dropped_and_its_cpu_kept() -> None:
    results = Results([replace(RUN, scenario="200/s", target=t, foreign_cpu=2.0) for t in ("pdserving", "direct")])
    assert results.added_latency("pdserving", "p50") is None
    assert results.cpu_per_request("pdserving", "200/s") == 40.0


def test_added_latency_is_over_the_engine_alone() -> None:
    direct = replace(RUN, scenario="200/s", target="direct", latency_us={"p50": 100.0, "p99": 100.0})
    results = Results([replace(RUN, scenario="200/s"), direct])
    assert results.added_latency("pdserving", "p99") == 800.0


def test_goals_are_met_missed_or_not_measured() -> None:
    title = "CPU per request, small"
    assert goal([of("pdserving", 0.4), of("vllm-router", 0.8)], title) == "≤ 0.5 × vllm-router: met"
    assert goal([of("pdserving", 0.41), of("vllm-router", 0.8)], title) == "≤ 0.5 × vllm-router: **missed**"
    assert goal([of("pdserving", 0.4)], title) == "≤ 0.5 × vllm-router: not measured"
