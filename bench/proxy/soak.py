"""Memory after many requests and many cancelled ones: it must not depend on how many there were."""

from dataclasses import dataclass, replace

from bench.proxy.measure import check_legs, checked
from bench.proxy.processes import Cores, Load, free_ports, running_mock, running_target
from bench.proxy.procfs import process_tree, pss_kib
from bench.proxy.scenarios import Scenario
from bench.proxy.targets import Target

# A tenth of the load fills every pool and cache; the other nine tenths must add less than this.
FLAT = 1.05


@dataclass(frozen=True, slots=True)
class Stage:
    """Memory in KiB after ``count`` requests of one kind in all, and after a tenth of them."""

    kind: str
    count: int
    after_a_tenth: int
    after_all: int

    @property
    def flat(self) -> bool:
        return self.after_all <= self.after_a_tenth * FLAT


def soak(target: Target, requests: int, cores: Cores) -> tuple[Stage, ...]:
    """Serve ``requests`` whole ones and a tenth as many cancelled ones in one process."""
    whole = Scenario("requests", connections=32, requests=requests)
    left = Scenario(
        "cancelled", connections=64, requests=requests // 10, stream=True, cancel=True, tokens=1000, itl_us=2000
    )
    ports = free_ports()
    with running_mock(ports, left.itl_us, cores) as mock, running_target(target, ports, cores) as pid:
        assert pid is not None
        tree = process_tree(pid)
        stages = tuple(_stage(each, ports.proxy, tree, cores) for each in (whole, left))
    check_legs(target.legs, mock.counters, 1 + requests + requests // 10)
    return stages


def _stage(scenario: Scenario, port: int, tree: list[int], cores: Cores) -> Stage:
    memory = []
    for requests in (scenario.requests // 10, scenario.requests * 9 // 10):
        checked(Load(port, replace(scenario, requests=requests), cores).finish())
        memory.append(pss_kib(tree))
    return Stage(scenario.name, scenario.requests, *memory)
