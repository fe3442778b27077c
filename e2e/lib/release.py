"""The operator, installed the only way that users install it: with Helm, from the chart in this repository."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from e2e.lib.engine import parse_samples
from e2e.lib.kubectl import Helm, Kubectl
from e2e.lib.target import as_it_is
from e2e.lib.waiting import eventually

CHART = Path(__file__).resolve().parents[2] / "charts" / "pdserving"
NAMESPACE = "pdserving-system"
NAME = "pdserving"
DEPLOYMENT = f"{NAME}-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{DEPLOYMENT}"
SELECTOR = f"app.kubernetes.io/instance={NAME},app.kubernetes.io/component=operator"


@dataclass(frozen=True, slots=True)
class Release:
    """One installation of the chart; ``kubectl`` is bound to its namespace."""

    kubectl: Kubectl
    helm: Helm

    def install(self, image: str, **values: object) -> None:
        """Install or upgrade, and wait until the operator is ready; ``image`` is REPOSITORY:TAG.

        What ran before is restarted: the tag may be the old one and its content new.
        """
        self._finish_interrupted()
        before = self.kubectl.find("deployment", DEPLOYMENT)
        repository, _, tag = image.rpartition(":")
        chosen = {"image.repository": repository, "image.tag": tag, **values}
        settings = [f"--set={key}={value}" for key, value in chosen.items()]
        self.helm.run(
            "upgrade", "--install", NAME, str(CHART), f"--namespace={NAMESPACE}", "--create-namespace", *settings
        )
        if before and not as_it_is():
            self.kubectl.run("rollout", "restart", f"deployment/{DEPLOYMENT}")
        self.wait()

    def _finish_interrupted(self) -> None:
        """Helm refuses to touch a release whose last change was interrupted, for ever: undo that change."""
        releases = json.loads(self.helm.run("list", "--all", "-o", "json", f"--namespace={NAMESPACE}"))
        match [each["status"] for each in releases if each["name"] == NAME]:
            case ["pending-install"]:
                self.uninstall()
            case [status] if status.startswith("pending"):
                self.helm.run("rollback", NAME, f"--namespace={NAMESPACE}")

    def uninstall(self) -> None:
        self.helm.run("uninstall", NAME, f"--namespace={NAMESPACE}", "--ignore-not-found", "--wait")

    def wait(self, seconds: int = 180) -> None:
        self.kubectl.run("rollout", "status", f"deployment/{DEPLOYMENT}", f"--timeout={seconds}s", timeout=seconds + 10)

    def pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.kubectl.list("pods", SELECTOR)]

    def active(self) -> str:
        """The pod that holds the Lease; right after a restart none may hold it yet."""
        return eventually("a replica holds the Lease", self._holder, within=60)

    def _holder(self) -> str:
        holder: str = self.kubectl.get("lease", DEPLOYMENT)["spec"]["holderIdentity"]
        return next((pod for pod in self.pods() if pod in holder), "")

    def samples(self) -> dict[str, float]:
        """Metrics of the active replica, by series and summed by name."""
        with self.kubectl.forward(f"pod/{self.active()}", 9100) as url:
            return parse_samples(httpx.get(f"{url}/metrics", trust_env=False).text)

    def kill(self) -> None:
        """End every replica at once, without a chance to tidy up."""
        self.kubectl.run("delete", "pod", f"-l{SELECTOR}", "--force", "--grace-period=0")

    @contextmanager
    def absent(self) -> Iterator[None]:
        """No operator at all inside the block, the same number of replicas as before after it."""
        replicas = self.kubectl.get("deployment", DEPLOYMENT)["spec"]["replicas"]
        self.kubectl.run("scale", f"deployment/{DEPLOYMENT}", "--replicas=0")
        eventually("the operator's pods are gone", lambda: not self.pods(), within=60)
        try:
            yield
        finally:
            self.kubectl.run("scale", f"deployment/{DEPLOYMENT}", f"--replicas={replicas}")
            self.wait()
