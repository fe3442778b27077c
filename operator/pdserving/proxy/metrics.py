"""Counters and histograms as plain numbers, rendered when scraped.

One observation of prometheus_client costs as much as relaying a chunk; here it is a list index and an addition.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)

Sample = tuple[tuple[str, ...], float]


class Counter:
    """A count by label values."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self.values: dict[tuple[str, ...], int] = {}

    def add(self, *key: str) -> None:
        self.values[key] = self.values.get(key, 0) + 1

    def render(self) -> Iterable[str]:
        yield from render_family(self.name, self.text, "counter", self.labels, self.values.items())


class Gauge:
    """Values that are asked for when scraped."""

    def __init__(self, name: str, text: str, labels: Sequence[str], read: Callable[[], Iterable[Sample]]) -> None:
        self.name, self.text, self.labels, self._read = name, text, tuple(labels), read

    def render(self) -> Iterable[str]:
        yield from render_family(self.name, self.text, "gauge", self.labels, self._read())


class Histogram:
    def __init__(self, name: str, text: str, bounds: Sequence[float] = SECONDS) -> None:
        self.name, self.text, self.bounds = name, text, tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def render(self) -> Iterable[str]:
        yield f"# HELP {self.name} {self.text}"
        yield f"# TYPE {self.name} histogram"
        running = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            running += count
            yield f'{self.name}_bucket{{le="{"+Inf" if bound == float("inf") else f"{bound:g}"}"}} {running}'
        yield f"{self.name}_sum {self.total:.6f}"
        yield f"{self.name}_count {running}"


def render_family(name: str, text: str, kind: str, labels: Sequence[str], samples: Iterable[Sample]) -> Iterable[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for key, value in samples:
        pairs = ",".join(f'{label}="{_escape(part)}"' for label, part in zip(labels, key, strict=True))
        yield f"{name}{{{pairs}}} {value}" if pairs else f"{name} {value}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Metrics:
    """Every request is counted once in ``requests``, by what became of it."""

    def __init__(self) -> None:
        prefix = "pdserving_proxy_"
        self.requests = Counter(
            f"{prefix}requests_total",
            "Requests by API, path through the engines and outcome.",
            ("api", "path", "outcome"),
        )
        self.choices = Counter(
            f"{prefix}choices_total", "Engines chosen for legs of requests, and why.", ("role", "reason")
        )
        self.leg_failures = Counter(
            f"{prefix}leg_failures_total", "Failed exchanges with engines.", ("role", "pod", "cause")
        )
        self.retries = Counter(f"{prefix}retries_total", "Legs that were tried again.", ("role",))
        self.local = Counter(
            f"{prefix}local_prefills_total", "Prompts computed by a decode engine, and why.", ("reason",)
        )
        self.releases = Counter(
            f"{prefix}releases_total", "Transfers that nobody fetched and whose blocks P was told to free.", ("result",)
        )
        self.canaries = Counter(
            f"{prefix}canaries_total", "Canary prompts through pairs of engines, by what came of them.", ("result",)
        )
        self.ttft = Histogram(f"{prefix}time_to_first_token_seconds", "From the request's end to the first body byte.")
        self.duration = Histogram(f"{prefix}request_duration_seconds", "From the request's end to the answer's end.")
        self.prefill = Histogram(f"{prefix}prefill_seconds", "A prefill engine's answer: its queue and computation.")
        self.decode_wait = Histogram(
            f"{prefix}decode_first_byte_seconds", "A decode engine's first byte: KV cache transfer and first token."
        )
        self.chunk_gap = Histogram(
            f"{prefix}inter_chunk_seconds", "Mean time between two pieces of a stream, once per stream.", FAST
        )
        self.families: list[Counter | Gauge | Histogram] = [
            self.requests, self.choices, self.leg_failures, self.retries, self.local, self.releases,
            self.canaries, self.ttft, self.duration, self.prefill, self.decode_wait, self.chunk_gap,
        ]  # fmt: skip

    def gauge(self, name: str, text: str, labels: Sequence[str], read: Callable[[], Iterable[Sample]]) -> None:
        self.families.append(Gauge(f"pdserving_proxy_{name}", text, labels, read))

    def render(self) -> bytes:
        lines = [line for family in self.families for line in family.render()]
        return ("\n".join(lines) + "\n").encode()
