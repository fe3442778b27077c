"""Starts the mock engines, a proxy and the load generator, each on its core, and ends them again."""

import json
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.proxy.build import build_programs
from bench.proxy.scenarios import Scenario
from bench.proxy.targets import DIRECT, Ports, Target, environment

START_LIMIT_S = 60


class InvalidRunError(Exception):
    """A run that says nothing about speed: something answered wrongly, late or not at all."""


@dataclass(frozen=True, slots=True)
class Cores:
    """One core for the proxy; engines and clients share the other."""

    proxy: int
    load: int
    realtime: bool = False
    """Ahead of all other work on these cores: short runs on a busy machine, at its cost. Needs root."""

    def pin(self, core: int) -> list[str]:
        return ["taskset", "-c", str(core), *(["chrt", "--fifo", "1"] if self.realtime else [])]


def free_ports() -> Ports:
    sockets = [socket.socket() for _ in range(5)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = Ports(*(each.getsockname()[1] for each in sockets))
    for each in sockets:
        each.close()
    return ports


class Mock:
    """The engines of one run; ``counters`` is filled when they have been stopped."""

    def __init__(self, ports: Ports, itl_us: int, cores: Cores) -> None:
        numbers = [str(n) for n in (ports.prefill, ports.decode, ports.bootstrap, itl_us)]
        command = [*cores.pin(cores.load), str(build_programs()["mock"]), *numbers]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.counters: dict[str, Any] = {}
        assert self.process.stdout is not None
        self.process.stdout.readline()  # "listening"

    def stop(self) -> None:
        self.process.terminate()
        self.counters = json.loads(self.process.communicate(timeout=10)[0])


@contextmanager
def running_mock(ports: Ports, itl_us: int, cores: Cores) -> Iterator[Mock]:
    mock = Mock(ports, itl_us, cores)
    try:
        yield mock
        mock.stop()
    finally:
        mock.process.kill()


@contextmanager
def running_target(target: Target, ports: Ports, cores: Cores) -> Iterator[int | None]:
    """Yield the proxy's process id once it has served a request; None for no proxy."""
    if target.name == DIRECT:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="bench-proxy-") as name:
        folder = Path(name)
        command = [*cores.pin(cores.proxy), *target.command(ports, folder)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, env=environment(target), stdout=log, stderr=log, start_new_session=True
            )
        try:
            _wait_until_serving(process, ports, cores, folder / "log")
            yield process.pid
        finally:
            _end(process)


def _wait_until_serving(process: subprocess.Popen[bytes], ports: Ports, cores: Cores, log: Path) -> None:
    probe = Scenario("probe", connections=1, requests=1)
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        if _accepts(ports.proxy):
            load = Load(ports.proxy, probe, cores, quiet=True)
            if load.finish()["requests"] == 1:
                return
        time.sleep(0.2)
    raise InvalidRunError(f"did not serve within {START_LIMIT_S} s; its log ends: {log.read_text()[-300:].strip()}")


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Load:
    """One run of the load generator."""

    def __init__(self, port: int, scenario: Scenario, cores: Cores, *, quiet: bool = False) -> None:
        command = [*cores.pin(cores.load), str(build_programs()["load"]), str(port), *scenario.options()]
        errors = subprocess.DEVNULL if quiet else None
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def wait_until_open(self) -> None:
        """Return when every connection has received the first token of its stream."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line.strip() != "open":
            raise InvalidRunError(f"not all streams opened: {line}")

    def finish(self) -> dict[str, Any]:
        """Return its result; zero requests if it could not even connect."""
        output = self.process.communicate()[0]
        lines = output.splitlines()
        result: dict[str, Any] = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"requests": 0}
        return result
