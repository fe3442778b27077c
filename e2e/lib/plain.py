"""An engine with no P/D at all, from the same image with the same model: what right answers are measured against."""

from typing import Any

from e2e.lib.asking import Question, ask
from e2e.lib.kubectl import Kubectl

NAME = "plain"
EXTRA_ARGS = ["--enable-scale-out"]
"""Without it vLLM keeps the generate API, tokens in and tokens out, closed."""


def pod(image: str) -> dict[str, Any]:
    """Pod and Service of the plain engine, within Pod Security `restricted` like the group's own."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "labels": {"app": NAME}},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 2,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(image)],
            "volumes": [
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
    }


def _container(image: str) -> dict[str, Any]:
    return {
        "name": "engine",
        "image": image,
        "args": ["--port=8000", *EXTRA_ARGS],
        "env": [{"name": "HOME", "value": "/tmp"}],
        "ports": [{"name": "http", "containerPort": 8000}],
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": "http"},
            "periodSeconds": 2,
            "timeoutSeconds": 10,
            "failureThreshold": 30,
        },
        "resources": {"requests": {"cpu": "100m", "memory": "1500Mi"}, "limits": {"memory": "3Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "tmp", "mountPath": "/tmp"}],
    }


def service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME},
        "spec": {"selector": {"app": NAME}, "ports": [{"port": 8000, "targetPort": "http"}]},
    }


class Plain:
    """The right answers, each asked for once."""

    def __init__(self, kubectl: Kubectl, url: str) -> None:
        self.kubectl, self.url = kubectl, url
        self._known: dict[str, tuple[int, ...]] = {}

    def tokens(self, question: Question) -> tuple[int, ...]:
        key = f"{question.path} {sorted(question.body.items())}"
        if key not in self._known:
            self._known[key] = ask(self.url, question).tokens
        return self._known[key]
