"""The loads. Each is one fresh start of the proxy, one warm-up and one measured run of the load generator."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Scenario:
    """Options of the load generator (see ``c/load.c``) and the time between two tokens of a stream."""

    name: str
    connections: int
    seconds: int = 0
    requests: int = 0
    rate: int = 0
    bytes: int = 300
    tokens: int = 16
    stream: bool = False
    cancel: bool = False
    ramp_ms: int = 0
    itl_us: int = 20_000

    def options(self) -> list[str]:
        names = ("connections", "seconds", "requests", "rate", "bytes", "tokens", "stream", "cancel", "ramp_ms")
        return [f"{name}={int(getattr(self, name))}" for name in names]

    def warm_up(self) -> "Scenario":
        """Requests of the same size, not streamed: connections are pooled, code and buffers are warm."""
        return Scenario(
            f"{self.name} warm-up", connections=16, requests=1000 if self.bytes < 100_000 else 100, bytes=self.bytes
        )


SMALL = Scenario("small", connections=32, seconds=4)
PROMPT_16K = Scenario("16 KB", connections=16, seconds=4, bytes=16_384)
PROMPT_1M = Scenario("1 MB", connections=8, seconds=4, bytes=1_000_000)
RATE_200 = Scenario("200/s", connections=64, seconds=5, rate=200)
STREAMS_500 = Scenario("500 streams", connections=500, requests=500, tokens=250, stream=True, ramp_ms=1000)
STREAMS_2000 = Scenario(
    "2000 streams", connections=2000, requests=2000, tokens=60, stream=True, ramp_ms=2000, itl_us=100_000
)
ALL = (SMALL, PROMPT_16K, PROMPT_1M, RATE_200, STREAMS_500, STREAMS_2000)


def quick(scenario: Scenario) -> Scenario:
    """The same load for a shorter time: for trends while developing, not for publishing."""
    if scenario.stream:
        return replace(scenario, tokens=max(scenario.tokens // 3, 25))
    return replace(scenario, seconds=min(scenario.seconds, 3 if scenario.rate else 1))
