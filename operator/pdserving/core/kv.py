"""On what prefill and decode engines must agree to exchange KV cache, and its hash: the lane.

MooncakeConnector compares only structure (layer names, region sizes): engines that differ in weights, RoPE or
quantisation exchange garbage without an error (vLLM 0.33, no compatibility hash). So engines of different lanes are
never paired, and flags that must be equal are compared before anything is created.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from pdserving.api.v1alpha1 import EngineSpec, PDServingGroupSpec, RoleSpec

KV_FLAGS = frozenset(
    (
        "attention-backend",
        "block-size",
        "calculate-kv-scales",
        "chat-template",
        "code-revision",
        "config-format",
        "dtype",
        "enable-lora",
        "hf-config-path",
        "hf-overrides",
        "kv-cache-dtype",
        "language-model-only",
        "load-format",
        "lora-modules",
        "mamba-cache-dtype",
        "mamba-ssm-cache-dtype",
        "max-lora-rank",
        "quantization",
        "rope-scaling",
        "rope-theta",
        "speculative-config",
        "tokenizer",
        "tokenizer-mode",
        "tokenizer-revision",
        "trust-remote-code",
    )
)
KV_ENV = frozenset(("VLLM_ATTENTION_BACKEND", "VLLM_KV_CACHE_LAYOUT", "VLLM_MLA_DISABLE"))
LANE_LENGTH = 8


def compute_lane(spec: PDServingGroupSpec, served_name: str, images: tuple[str, str]) -> str:
    """Hash of the agreement: eight hexadecimal digits.

    `images` are those of prefill and decode, defaults filled in: a new vLLM version is a new lane. What each side may
    choose freely (replicas, memory, batch sizes) is left out, so that changing it rolls the pods of the lane.
    """
    source = spec.model.source.model_dump(mode="json", exclude={"hugging_face": {"token_secret"}}, exclude_none=True)
    agreement = {
        "model": source,
        "servedName": served_name,
        "images": images,
        "protocol": spec.transfer.protocol,
        "parallelism": [role.parallelism.model_dump() for role in (spec.prefill, spec.decode)],
        "settings": [kv_settings(spec.engine, role) for role in (spec.prefill, spec.decode)],
    }
    text = json.dumps(agreement, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LANE_LENGTH]


def find_disagreement(spec: PDServingGroupSpec) -> str | None:
    prefill, decode = kv_settings(spec.engine, spec.prefill), kv_settings(spec.engine, spec.decode)
    for name in sorted(prefill.keys() | decode.keys()):
        if prefill.get(name) != decode.get(name):
            return (
                f"spec.prefill and spec.decode: {name} is {_show(prefill, name)} for prefill and {_show(decode, name)} "
                "for decode, which can't share KV cache: set it once in spec.engine"
            )
    return None


def _show(settings: Mapping[str, str], name: str) -> str:
    return repr(settings[name]) if name in settings else "not set"


def kv_settings(engine: EngineSpec, role: RoleSpec) -> dict[str, str]:
    """Flags and variables of one role on which the other must agree, the role's own over the common ones."""
    flags = {
        f"--{name}": value
        for name, value in parse_flags((*engine.args, *role.args)).items()
        if name.split(".")[0] in KV_FLAGS
    }
    env = {
        variable.name: variable.value or json.dumps(variable.value_from, sort_keys=True)
        for variable in (*engine.env, *role.env)
        if variable.name in KV_ENV
    }
    return flags | env


def parse_flags(arguments: Iterable[str]) -> dict[str, str]:
    """Long flags by name, without dashes; ``--a b c`` and ``--a=b`` alike, and the last one wins as in vLLM."""
    flags: dict[str, Any] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name, _, value = argument[2:].partition("=")
            name = name.replace("_", "-")
            flags[name] = value
        elif name and not argument.startswith("-"):
            flags[name] = f"{flags[name]} {argument}".strip()
    return flags
