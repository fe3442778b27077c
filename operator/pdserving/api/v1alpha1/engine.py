"""``spec.engine``, ``spec.prefill`` and ``spec.decode``: the vLLM engines and the pods around them."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from pdserving.api.owned import OWNED_ENV, OWNED_FLAGS, env_message
from pdserving.api.v1alpha1.base import VALIDATIONS, Image, Model, Quantities, ResourceName, rule, rules
from pdserving.api.v1alpha1.model import PullPolicy

Argument = Annotated[str, Field(min_length=1, max_length=4096)]
Arguments = Annotated[
    tuple[Argument, ...],
    Field(
        max_length=64,
        json_schema_extra=rules(
            *(rule(f"self.all(a, !a.matches('{flag.pattern}'))", flag.message) for flag in OWNED_FLAGS)
        ),
    ),
]
PRESERVED: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
Preserved = Annotated[dict[str, Any], Field(json_schema_extra=PRESERVED)]


class EnvVar(Model):
    name: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=8192)] | None = None
    """Its value; $(OTHER) is replaced as in any pod."""
    value_from: Preserved | None = None
    """A source as in any pod: secretKeyRef, configMapKeyRef, fieldRef, resourceFieldRef."""


EnvVars = Annotated[
    tuple[EnvVar, ...],
    Field(
        max_length=64,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            VALIDATIONS: [rule(f"self.all(e, e.name != '{name}')", env_message(name)) for name in OWNED_ENV],
        },
    ),
]


class Resources(Model):
    requests: Quantities = Field(default_factory=dict)
    """What a pod reserves, such as cpu and memory."""
    limits: Quantities = Field(default_factory=dict)
    """What a pod may use at most."""


class Parallelism(Model):
    tensor: Annotated[int, Field(ge=1, le=64)] = 1
    """Tensor parallel ranks. Of the two roles' values one must divide the other."""
    pipeline: Annotated[int, Field(ge=1, le=64)] = 1
    """Pipeline parallel stages."""
    data: Annotated[int, Field(ge=1, le=64)] = 1
    """Data parallel ranks inside each pod."""
    expert: bool = False
    """Spread a mixture-of-experts layer's experts over the tensor and data parallel ranks."""


class EngineSpec(Model):
    image: Image | None = None
    """vLLM image, 0.32 or later with Mooncake. By default the one with which the operator was installed."""
    image_pull_policy: PullPolicy = "IfNotPresent"
    """When the kubelet pulls the engine image."""
    args: Arguments = ()
    """Arguments of `vllm serve` for both roles, before the role's own. A flag that the operator writes is refused."""
    env: EnvVars = ()
    """Environment of both roles' engines. A role's variable of the same name takes its place."""
    port: Annotated[
        int,
        Field(ge=1024, le=65535, json_schema_extra=rules(rule("self != 8998", "8998 is the bootstrap server's port"))),
    ] = 8000
    """Port of the engines' HTTP server."""


GPUS_MISMATCH = "gpus must be the product of parallelism.tensor, pipeline and data, or 0 for an engine without GPUs"


class RoleSpec(Model):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.gpus) || self.gpus == 0 || "
                "self.gpus == self.parallelism.tensor * self.parallelism.pipeline * self.parallelism.data",
                GPUS_MISMATCH,
            ),
            rule(
                "!(has(self.gpus) && self.gpus > 0 && has(self.resources) && "
                "((has(self.resources.limits) && self.gpuResource in self.resources.limits) || "
                "(has(self.resources.requests) && self.gpuResource in self.resources.requests)))",
                "GPUs are counted by gpus: remove the GPU resource from resources, or set gpus to 0",
            ),
        )
    )

    replicas: Annotated[int, Field(ge=0, le=256)] | None = None
    """Engine pods of this role. Leave it out to let an autoscaler own the StatefulSet's replicas: it then starts at 1
    and the operator never writes it, except 0 while the group is suspended."""
    gpus: Annotated[int, Field(ge=0, le=64)] = 1
    """GPUs of each pod: the product of the parallel sizes. 0 for a CPU engine, or if resources or template ask for
    the GPUs in another way."""
    gpu_resource: ResourceName = "nvidia.com/gpu"
    """Extended resource that gpus counts, for MIG slices or other vendors."""
    resources: Resources = Resources()
    """Further requests and limits of the engine container."""
    parallelism: Parallelism = Parallelism()
    """How the model is spread over the GPUs of a pod."""
    image: Image | None = None
    """Engine image of this role in place of engine.image. Prefill and decode must run the same vLLM version."""
    args: Arguments = ()
    """Arguments of this role, after engine.args."""
    env: EnvVars = ()
    """Environment of this role's engines, over engine.env by name."""
    template: Preserved | None = None
    """Any field of a pod template (metadata and spec), merged strategically onto what the operator builds: containers,
    volumes and variables by name, mounts by path, tolerations appended; null removes. If it lists containers, one must
    be named engine. What the operator owns (image, args, ports, some variables) is refused with the field to use."""
    startup_timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 1800
    """How long an engine may take to download and load the model before its container is restarted."""
    shutdown_timeout_seconds: Annotated[int, Field(ge=0, le=3600)] = 120
    """How long an engine may finish running requests after it was told to stop. On prefill this includes KV cache that
    waits to be fetched."""
