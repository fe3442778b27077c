"""Groups and observed objects as tests need them: the smallest that are valid, changed where a test says so."""

from datetime import UTC, datetime
from typing import Any

from pdserving.core.plan import Defaults

NOW = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)
DEFAULTS = Defaults(
    proxy_image="registry.example/pdserving:1",
    engine_image="registry.example/vllm:0.33",
    operator_namespace="pdserving-system",
)


def make_group(name: str = "llm", **spec: Any) -> dict[str, Any]:
    """A valid group over TCP; keyword arguments replace top-level fields of its spec."""
    base = {
        "model": {"source": {"inImage": {"path": "/model"}}},
        "transfer": {"protocol": "tcp"},
        "prefill": {"replicas": 1},
        "decode": {"replicas": 2},
    }
    return {
        "apiVersion": "pdserving.dev/v1alpha1",
        "kind": "PDServingGroup",
        "metadata": {"name": name, "namespace": "serving", "uid": "group-uid", "generation": 1},
        "spec": {**base, **spec},
    }


def make_pod(name: str, role: str = "prefill", lane: str = "00000000", **container: Any) -> dict[str, Any]:
    """A scheduled pod that is not ready; keyword arguments are fields of its engine's container status."""
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": f"{name}-uid",
            "labels": {"pdserving.dev/role": role, "pdserving.dev/lane": lane},
        },
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
            "containerStatuses": [
                {"name": "engine", "ready": False, "image": "vllm:1", "restartCount": 0, **container}
            ],
        },
    }
