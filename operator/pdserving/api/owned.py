"""Engine flags and environment variables that the operator writes, and what a user sets in their place.

One table serves the CEL rules in the CRD and the checks in the core, so that both refuse the same things in the same
words. vLLM takes ``--flag value``, ``--flag=value``, underscores for dashes, and ``--flag.key value`` for flags that
hold JSON (0.32, ``FlexibleArgumentParser``): the patterns cover all four.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnedFlag:
    flags: str
    """As the message shows it."""
    expression: str
    """RE2 and Python alike: the flag without its leading dashes, ``-`` standing for ``-`` or ``_``."""
    remedy: str

    @property
    def pattern(self) -> str:
        return f"(?s)^--?({self.expression.replace('-', '[-_]')})([=.].*)?$"

    @property
    def message(self) -> str:
        return f"{self.flags} is not for args: {self.remedy}"


OWNED_FLAGS = (
    OwnedFlag("--kv-transfer-config", "kv-transfer-config", "describe the KV transfer in spec.transfer"),
    OwnedFlag("--host", "host|uds", "remove it, the engine listens on its pod's address"),
    OwnedFlag("--port", "port", "use spec.engine.port"),
    OwnedFlag("--ssl-*", "ssl-.*", "remove it, the proxy speaks HTTP to the engines; end TLS in front of the proxy"),
    OwnedFlag("--model", "model|model-tag", "use spec.model.source"),
    OwnedFlag("--revision", "revision", "use spec.model.source.huggingFace.revision"),
    OwnedFlag("--served-model-name", "served-model-name", "use spec.model.servedName"),
    OwnedFlag("--tensor-parallel-size", "tensor-parallel-size|tp", "use parallelism.tensor of the role"),
    OwnedFlag("--pipeline-parallel-size", "pipeline-parallel-size|pp", "use parallelism.pipeline of the role"),
    OwnedFlag("--data-parallel-*", "data-parallel-.*|dp.*", "use parallelism.data of the role"),
    OwnedFlag("--enable-expert-parallel", "(no-)?enable-expert-parallel|ep", "use parallelism.expert of the role"),
    OwnedFlag(
        "--prefill-context-parallel-size",
        "(prefill|decode)-context-parallel-size|pcp|dcp",
        "remove it, MooncakeConnector can't move KV cache of context parallel engines",
    ),
    OwnedFlag("--nnodes", "nnodes|node-rank|master-addr|master-port|headless", "remove it, one engine is one pod"),
    OwnedFlag("--shutdown-timeout", "shutdown-timeout", "use shutdownTimeoutSeconds of the role"),
)

_TRANSPORT = "choose the transport with spec.transfer.protocol"
OWNED_ENV = {
    "VLLM_HOST_IP": "remove it, the engine advertises its pod's address",
    "VLLM_MOONCAKE_BOOTSTRAP_PORT": "remove it, the proxy and the bootstrap Service use port 8998",
    "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": "use spec.transfer.abortTimeoutSeconds",
    "WITH_NVIDIA_PEERMEM": "use spec.transfer.gpuDirect",
    "MC_GID_INDEX": "use spec.transfer.gidIndex",
    "MC_TE_FILTERS": "use spec.transfer.hcas",
    "MC_FORCE_TCP": _TRANSPORT,
    "MC_FORCE_HCA": _TRANSPORT,
    "MC_FORCE_MNNVL": _TRANSPORT,
    "MC_INTRANODE_NVLINK": _TRANSPORT,
    "POD_NAME": "remove it, it is the pod's own name",
    "PDSERVING_BOOTSTRAP_ADDRESS": "remove it, it is the address of the bootstrap Service",
}
"""Name of the variable -> what to do instead."""


def env_message(name: str) -> str:
    return f"{name} is not for env: {OWNED_ENV[name]}"


def find_owned_flag(arguments: tuple[str, ...]) -> OwnedFlag | None:
    """The first flag of ours among a user's arguments."""
    return next((flag for flag in OWNED_FLAGS for argument in arguments if re.match(flag.pattern, argument)), None)
