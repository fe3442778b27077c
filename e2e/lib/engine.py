"""What only the inside of an engine pod can tell: its counters, its bootstrap server, its neighbours' API.

The group's NetworkPolicy keeps everybody but the proxy away from engines, the suite included; so these questions are
asked from inside an engine pod, with the Python that its image contains.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2e.lib.kubectl import Kubectl

_FETCH = """
import sys, urllib.request
url, body = sys.argv[1], sys.argv[2].encode() or None
request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
sys.stdout.write(urllib.request.urlopen(request, timeout=90).read().decode())
"""
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
# The API process is pid 1 of its container and deaf to signals from inside; without its engine core it ends itself.
_KILL_ALL_BUT_INIT = "import os, signal; os.kill(-1, signal.SIGKILL)"


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine pod, spoken to from its inside."""

    kubectl: Kubectl
    pod: str
    port: int

    def fetch(self, url: str, body: Mapping[str, Any] | None = None) -> str:
        text = json.dumps(body) if body else ""
        return self.kubectl.execute_in(self.pod, "python", "-c", _FETCH, url, text)

    def counters(self) -> dict[str, float]:
        """Series -> value as the engine exposes them, and name -> the sum over all series of that name."""
        return parse_samples(self.fetch(f"http://127.0.0.1:{self.port}/metrics"))

    def ask(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """One completion from this engine, with no proxy between."""
        answer: dict[str, Any] = json.loads(self.fetch(f"http://127.0.0.1:{self.port}/v1/completions", body))
        return answer

    def address(self) -> str:
        address: str = self.kubectl.get("pod", self.pod)["status"]["podIP"]
        return address

    def engine_id(self) -> str:
        """The id that D must be given; a new one after every start."""
        engine_id: str = json.loads(self.fetch("http://127.0.0.1:8998/query"))["0"]["engine_id"]
        return engine_id

    def kill(self) -> None:
        """End every process in the container as the out-of-memory killer would; the kubelet restarts it in place."""
        self.kubectl.run("exec", self.pod, "-c", "engine", "--", "python", "-c", _KILL_ALL_BUT_INIT)

    def restarts(self) -> int:
        statuses = self.kubectl.get("pod", self.pod)["status"]["containerStatuses"]
        return next(int(status["restartCount"]) for status in statuses if status["name"] == "engine")


def parse_samples(exposition: str) -> dict[str, float]:
    """Samples of a Prometheus exposition by series, and summed by name."""
    samples: dict[str, float] = {}
    for match in filter(None, map(_SAMPLE.match, exposition.splitlines())):
        name, labels, value = match["name"], match["labels"], float(match["value"])
        samples[name] = samples.get(name, 0.0) + value
        if labels:
            samples[f"{name}{{{labels}}}"] = value
    return samples


def transferred(samples: Mapping[str, float]) -> float:
    """Prompt tokens whose KV cache D took from a P instead of computing it."""
    name = "vllm:prompt_tokens_by_source_total{"
    return sum(v for k, v in samples.items() if k.startswith(name) and 'source="external_kv_transfer"' in k)
