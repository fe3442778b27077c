"""The table of bad inputs: what is changed in a good group, and what the user must be told.

A row says nothing about *where* the user is told, at `kubectl apply` or in a condition; that is decided by whether the
object alone can prove the mistake. Every message names the field or the object, and the remedy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ABSENT_GPU = "example.com/no-such-gpu"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One change of a good spec, and regular expressions that the message must match."""

    change: Mapping[str, Any]
    says: tuple[str, ...]
    name: str = ""
    """Another metadata.name than the one made from the row's."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A good spec that the cluster cannot make true: which condition says so, why, and in what words."""

    change: Mapping[str, Any]
    condition: str
    reason: str
    says: tuple[str, ...]
    quota: Mapping[str, Any] = field(default_factory=dict)
    """Limits of the group's namespace."""
    costly: bool = False
    """Real engines start and crash: a few seconds of processor time at every attempt."""


def _container(name: str) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": name, "image": "x"}]}}}


RDMA: dict[str, Any] = {"protocol": "rdma", "rdma": {"devicePlugin": {"resource": "rdma/hca_shared_devices_a"}}}

MISTAKES: dict[str, Mistake] = {
    "unknown-field": Mistake({"prefil": {"replicas": 1}}, (r'unknown field "(spec\.)?prefil"',)),
    "unknown-field-below": Mistake({"decode": {"replica": 1}}, ("decode", r'unknown field "(spec\.decode\.)?replica"')),
    "kv-transfer-config": Mistake(
        {"engine": {"args": ["--kv-transfer-config={}"]}},
        (r"spec\.engine\.args", r"--kv-transfer-config", r"spec\.transfer"),
    ),
    "kv-transfer-config-dotted": Mistake(
        {"prefill": {"args": ["--kv_transfer_config.kv_role=kv_both"]}}, (r"spec\.prefill\.args", r"spec\.transfer")
    ),
    "owned-flag": Mistake({"decode": {"args": ["--port", "9000"]}}, (r"spec\.decode\.args", r"spec\.engine\.port")),
    "owned-variable": Mistake(
        {"engine": {"env": [{"name": "MC_FORCE_TCP", "value": "1"}]}},
        (r"spec\.engine\.env", r"spec\.transfer\.protocol"),
    ),
    "wrong-container": Mistake({"prefill": _container("vllm")}, (r"spec\.prefill\.template", r'"?engine"?')),
    "container-without-name": Mistake(
        {"decode": {"template": {"spec": {"containers": [{"image": "x"}]}}}}, (r"spec\.decode\.template", "name")
    ),
    "template-unknown-field": Mistake(
        {"decode": {"template": {"spec": {"nodeSelektor": {"a": "b"}}}}},
        (r"spec\.decode\.template|decode", "nodeSelektor"),
    ),
    "name-too-long": Mistake({}, ("metadata.name", "35 characters"), name="a-name-that-is-far-too-long-for-labels"),
    "negative-replicas": Mistake(
        {"prefill": {"replicas": -1}}, (r"spec\.prefill\.replicas", "greater than or equal to 0")
    ),
    "huge-replicas": Mistake(
        {"decode": {"replicas": 100000}}, (r"spec\.decode\.replicas", "less than or equal to 256")
    ),
    "rdma-without-a-mode": Mistake({"transfer": {"protocol": "rdma"}}, (r"spec\.transfer", "set one of its modes")),
    "rdma-with-an-empty-mode": Mistake(
        {"transfer": {"protocol": "rdma", "rdma": {}}}, (r"spec\.transfer\.rdma", "exactly one of devicePlugin")
    ),
    "rdma-with-two-modes": Mistake(
        {"transfer": {"protocol": "rdma", "rdma": {**RDMA["rdma"], "resourceClaim": {"templateName": "hca"}}}},
        (r"spec\.transfer\.rdma", "exactly one of devicePlugin"),
    ),
    "rdma-beside-tcp": Mistake({"transfer": {**RDMA, "protocol": "tcp"}}, (r"spec\.transfer", "remove transfer.rdma")),
    "two-model-sources": Mistake(
        {"model": {"source": {"huggingFace": {"repo": "a/b"}}}}, (r"spec\.model\.source", "exactly one")
    ),
}

TROUBLES: dict[str, Trouble] = {
    "no-such-image": Trouble(
        {"engine": {"image": "localhost/no-such-engine:1"}},
        "PrefillAvailable",
        "ImagePullFailed",
        ("localhost/no-such-engine:1",),
    ),
    "no-such-model": Trouble(
        {"model": {"source": {"inImage": {"path": "/no-such-model"}}}},
        "PrefillAvailable",
        "ModelNotFound",
        ("/no-such-model",),
        costly=True,
    ),
    "crash-at-start": Trouble(
        {"prefill": {"args": ["--block-size=16"]}, "decode": {"args": ["--block-size=16"]}},
        "PrefillAvailable",
        "EngineCrashed",
        ("(?i)block.size",),
        costly=True,
    ),
    "unknown-engine-flag": Trouble(
        {"engine": {"args": ["--no-such-flag"]}},
        "PrefillAvailable",
        "InvalidEngineArguments",
        ("--no-such-flag",),
        costly=True,
    ),
    "no-such-gpu": Trouble(
        {"prefill": {"gpus": 1, "gpuResource": ABSENT_GPU}},
        "PrefillAvailable",
        "Unschedulable",
        (f"Insufficient {ABSENT_GPU}",),
    ),
    "quota": Trouble({}, "PrefillAvailable", "QuotaExceeded", ("exceeded quota", "pods"), quota={"pods": "0"}),
    "forbidden-pod": Trouble(
        {"transfer": RDMA}, "PrefillAvailable", "PodSecurityViolation", ("restricted", "IPC_LOCK")
    ),
}
