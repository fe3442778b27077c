"""What a vLLM engine of a group is told: command, arguments, environment. Facts are those of vLLM 0.32 and 0.33."""

import json
from typing import Any

from pdserving.api.labels import BOOTSTRAP_PORT
from pdserving.core import names
from pdserving.core.group import Group
from pdserving.core.names import Role

Env = dict[str, Any]

MODEL_MOUNT = "/model"
MODEL_CACHE_MOUNT = "/model-cache"
COMMAND = ("vllm", "serve")
PEERMEM_BY_MODULE = (
    "if [ -d /sys/module/nvidia_peermem ] || [ -d /sys/module/nv_peer_mem ]; then peermem=1; else peermem=0; fi; "
    'WITH_NVIDIA_PEERMEM=$peermem exec vllm serve "$@"'
)


def build_command(group: Group) -> list[str]:
    """Independent of the image's entrypoint.

    With gpuDirect auto a shell asks the node's kernel first: Mooncake takes peermem for granted and fails with
    `Bad address [14]` where the module is missing.
    """
    if group.spec.transfer.protocol == "rdma" and group.spec.transfer.gpu_direct in (None, "auto"):
        return ["sh", "-c", PEERMEM_BY_MODULE, "vllm"]
    return list(COMMAND)


def build_args(group: Group, role: Role) -> list[str]:
    """Ours first, then engine.args, then the role's: where vLLM sees a flag twice the last one counts.

    No ``--host``: vLLM listens on every address by default. No ``engine_id`` ever: a pinned one makes decode engines
    dial dead addresses after a restart of prefill.
    """
    spec = group.role(role)
    source = group.spec.model.source.hugging_face
    return [
        model_argument(group),
        *([f"--revision={source.revision}"] if source and source.revision else []),
        f"--served-model-name={group.served_name}",
        f"--port={group.port(role)}",
        f"--tensor-parallel-size={spec.parallelism.tensor}",
        f"--pipeline-parallel-size={spec.parallelism.pipeline}",
        f"--data-parallel-size={spec.parallelism.data}",
        *(["--enable-expert-parallel"] if spec.parallelism.expert else []),
        f"--shutdown-timeout={spec.shutdown_timeout_seconds}",
        f"--kv-transfer-config={json.dumps(build_kv_transfer_config(group, role), separators=(',', ':'))}",
        *group.spec.engine.args,
        *spec.args,
    ]


def model_argument(group: Group) -> str:
    """The positional argument of `vllm serve`: a repository, or a folder in the container."""
    source = group.spec.model.source
    if source.hugging_face:
        return source.hugging_face.repo
    if source.in_image:
        return source.in_image.path
    inside = source.persistent_volume_claim or source.image
    return f"{MODEL_MOUNT}/{inside.path}".rstrip("/") if inside else MODEL_MOUNT


def build_kv_transfer_config(group: Group, role: Role) -> dict[str, Any]:
    """`KVTransferConfig`, which forbids unknown keys. Its extra config is free: MooncakeConnector reads these three.

    `mooncake_protocol` alone chooses nothing in the PyPI wheels: see `build_env`.
    """
    transfer = group.spec.transfer
    extra: dict[str, Any] = {"mooncake_protocol": transfer.protocol}
    if transfer.hcas:
        extra["device_name"] = ",".join(transfer.hcas)
    if role == "prefill":
        extra["num_workers"] = transfer.workers
        return {
            "kv_connector": "MooncakeConnector",
            "kv_role": "kv_producer",
            "kv_connector_extra_config": extra,
        }
    return {
        "kv_connector": "MooncakeConnector",
        "kv_role": "kv_consumer",
        "kv_load_failure_policy": transfer.load_failure_policy,
        "kv_connector_extra_config": extra,
    }


def build_env(group: Group, role: Role) -> list[Env]:
    """The engine's environment: ours, then the user's by name (those that we own are refused in `group`)."""
    user = {
        variable.name: variable.model_dump(by_alias=True, exclude_none=True)
        for variable in (*group.spec.engine.env, *group.role(role).env)
    }
    ours = {variable["name"]: variable for variable in build_owned_env(group, role)}
    return list({**ours, **{variable["name"]: variable for variable in _default_env(group)}, **user}.values())


def build_owned_env(group: Group, role: Role) -> list[Env]:
    """POD_NAME comes first because the bootstrap address refers to it.

    VLLM_HOST_IP: the address that the side channel and the transfer engine advertise; left alone vLLM guesses it by
    route, wrongly with a second network (vllm#42023). VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT: upstream's 480 s would pin
    KV cache for eight minutes after a client left.
    """
    namespace, port = group.namespace, BOOTSTRAP_PORT
    own = role == "prefill"
    address = (names.own_bootstrap_address if own else names.bootstrap_address)(group.name, namespace, port)
    return [
        _field("POD_NAME", "metadata.name"),
        _field("VLLM_HOST_IP", "status.podIP"),
        *([_value("VLLM_MOONCAKE_BOOTSTRAP_PORT", str(port))] if own else []),
        _value("PDSERVING_BOOTSTRAP_ADDRESS", address),
        _value("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", str(group.spec.transfer.abort_timeout_seconds)),
        *_transport_env(group),
    ]


def _transport_env(group: Group) -> list[Env]:
    """Mooncake takes RDMA if it finds an HCA and TCP if not, whatever the protocol string says (0.3.13, 0.3.14).

    MC_FORCE_TCP: TCP even beside an HCA. MC_FORCE_HCA: fail at start instead of falling back to TCP silently.
    WITH_NVIDIA_PEERMEM: 1 registers GPU memory by nvidia_peermem, 0 by dma-buf; for auto see `build_command`.
    """
    transfer = group.spec.transfer
    if transfer.protocol == "tcp":
        return [_value("MC_FORCE_TCP", "1")]
    env = [_value("MC_FORCE_HCA", "1")]
    if transfer.gpu_direct in ("peermem", "dmabuf"):
        env.append(_value("WITH_NVIDIA_PEERMEM", "1" if transfer.gpu_direct == "peermem" else "0"))
    if transfer.gid_index is not None:
        env.append(_value("MC_GID_INDEX", str(transfer.gid_index)))
    return env


def _default_env(group: Group) -> list[Env]:
    """What a user may replace.

    HOME: caches of vLLM, Triton and torch go to the writable /tmp, the root being read-only. USER: torch's compiler
    asks for a user name, which our numeric user lacks.
    """
    env = [_value("HOME", "/tmp"), _value("USER", "engine")]  # noqa: S108 -- a volume of the pod
    source = group.spec.model.source.hugging_face
    if source:
        env.append(_value("HF_HOME", MODEL_CACHE_MOUNT))
    if source and source.token_secret:
        reference = {"name": source.token_secret.name, "key": source.token_secret.key}
        env.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    return env


def _value(name: str, value: str) -> Env:
    return {"name": name, "value": value}


def _field(name: str, path: str) -> Env:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
