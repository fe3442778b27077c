"""The operator as users run it: a process with a kubeconfig, probes and metrics."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from e2e.cluster.control_plane import free_ports

SOURCE = Path(__file__).parents[2] / "operator"
START_SECONDS = 60


class OperatorProcess:
    def __init__(self, kubeconfig: Path, log: Path, *arguments: str, name: str = "operator-0") -> None:
        self._kubeconfig = kubeconfig
        self._log = log
        self._arguments = arguments
        self._name = name
        self._port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process:
            self.stop(signal.SIGKILL)

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def start(self, *, until: str = "/readyz") -> None:
        """Returns when this path answers 200."""
        argv = [sys.executable, "-m", "pdserving", "operator", "--proxy-image=registry.example/pdserving:1"]
        argv += [f"--metrics=127.0.0.1:{self._port}", "--lease-namespace=default", *self._arguments]
        environment = {
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "KUBECONFIG": str(self._kubeconfig),
            "POD_NAME": self._name,
            "POD_NAMESPACE": "default",
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._wait(f"answering {until}", lambda: self.get(until)[0] == 200)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """The exit status."""
        assert self._process
        self._process.send_signal(how)
        return self.wait()

    def wait(self, within: float = 60) -> int:
        """For its end; the exit status."""
        assert self._process
        status = self._process.wait(timeout=within)
        self._process = None
        return status

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples with these labels."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        samples = (sample for family in families for sample in family.samples)
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    def lead(self) -> None:
        """Returns when it holds the lease; a standby is ready too."""
        self._wait("leading", lambda: self.metric("pdserving_leader") == 1)

    def _wait(self, what: str, check: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self._process
            assert self._process.poll() is None, f"the operator ended at its start:\n{self.log[-4000:]}"
            try:
                if check():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"the operator is not {what} after {START_SECONDS} s:\n{self.log[-4000:]}")
