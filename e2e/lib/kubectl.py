"""kubectl and helm as Python calls.

Every look at the cluster and every change of it goes through the programs that a user types. What the suite sees is
what a user would see, and a failing step can be repeated by hand from its message.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


class CommandError(Exception):
    """A program refused; ``stderr`` is what it told the user."""

    def __init__(self, command: list[str], stderr: str) -> None:
        super().__init__(f"{' '.join(command[:12])}\n{stderr}")
        self.stderr = stderr


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl for one cluster, and for one namespace once ``within`` has chosen it."""

    program: str
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    def within(self, namespace: str) -> "Kubectl":
        return replace(self, namespace=namespace)

    def command(self, *args: str) -> list[str]:
        chosen = {"--kubeconfig": self.kubeconfig, "--context": self.context, "--namespace": self.namespace}
        return [self.program, *(f"{flag}={value}" for flag, value in chosen.items() if value), *args]

    def run(self, *args: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Standard output, or CommandError with what kubectl said."""
        return execute(self.command(*args), stdin=stdin, timeout=timeout)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("get", kind, name, "-o", "json"))
        return found

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        """The object, or None where there is none."""
        text = self.run("get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text else None

    def list(self, kinds: str, selector: str = "") -> list[dict[str, Any]]:
        text = self.run("get", kinds, "-o", "json", *([f"-l{selector}"] if selector else []))
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    def apply(self, *objects: Mapping[str, Any]) -> str:
        return self.run("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def patch(self, kind: str, name: str, patch: Mapping[str, Any], *flags: str) -> str:
        return self.run("patch", kind, name, "--type=merge", "-p", json.dumps(patch), *flags)

    def delete(self, kind: str, name: str, *flags: str) -> str:
        return self.run("delete", kind, name, "--ignore-not-found", *flags)

    def execute_in(self, pod: str, *command: str, container: str = "engine", timeout: float = 120) -> str:
        return self.run("exec", pod, "-c", container, "--", *command, timeout=timeout)

    @contextmanager
    def forward(self, target: str, port: int) -> Iterator[str]:
        """Yield a URL on loopback that ends at a pod or Service, from wherever the cluster can be reached at all."""
        process = subprocess.Popen(self.command("port-forward", target, f":{port}"), stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout
            line = process.stdout.readline()  # "Forwarding from 127.0.0.1:41234 -> 8000"
            if not line:
                raise CommandError(self.command("port-forward", target), "ended without an address")
            yield f"http://{line.split()[2]}"
        finally:
            process.terminate()
            process.communicate()


@dataclass(frozen=True, slots=True)
class Helm:
    program: str
    kubeconfig: Path | None = None
    context: str | None = None

    def run(self, *args: str, timeout: float = 300) -> str:
        chosen = {"--kubeconfig": self.kubeconfig, "--kube-context": self.context}
        flags = [f"{flag}={value}" for flag, value in chosen.items() if value]
        return execute([self.program, *flags, *args], timeout=timeout)


def execute(command: list[str], *, stdin: str | None = None, timeout: float = 120) -> str:
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise CommandError(command, f"no answer within {timeout:.0f} s") from error
    if done.returncode:
        raise CommandError(command, done.stderr.strip() or done.stdout.strip())
    return done.stdout
