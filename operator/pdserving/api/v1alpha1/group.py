"""The PDServingGroup: one model served by prefill engines, decode engines and a proxy."""

from typing import Any

from pydantic import ConfigDict

from pdserving.api.v1alpha1.base import Model, rule, rules
from pdserving.api.v1alpha1.engine import EngineSpec, RoleSpec
from pdserving.api.v1alpha1.model import ModelSpec
from pdserving.api.v1alpha1.proxy import ProxySpec
from pdserving.api.v1alpha1.status import PDServingGroupStatus
from pdserving.api.v1alpha1.transfer import TransferSpec
from pdserving.api.v1alpha1.verification import VerificationSpec

MAX_NAME = 35
"""The revision label of a StatefulSet's pods, <name>-prefill-<8>-<10>, must fit into 63 characters."""
NAME_TOO_LONG = (
    f"metadata.name is longer than {MAX_NAME} characters: choose a shorter one, names of pods and labels grow from it"
)
NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
NAME_INVALID = (
    "metadata.name must be lower case letters, digits and dashes and begin with a letter: it becomes a Service's name"
)
TENSOR_MISMATCH = "prefill and decode parallelism.tensor must divide one another: KV heads can't be mapped otherwise"

ONE_PER_NODE = (
    "with hostNetwork a node has room for one engine of each role: set replicas to 1, or the topology of "
    "kubernetes.io/hostname to Preferred"
)


class PDServingGroupSpec(Model):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.prefill.parallelism.tensor % self.decode.parallelism.tensor == 0 || "
                "self.decode.parallelism.tensor % self.prefill.parallelism.tensor == 0",
                TENSOR_MISMATCH,
            ),
            rule(
                "!(has(self.transfer.rdma) && has(self.transfer.rdma.hostNetwork)) || "
                "!(has(self.prefill.replicas) && self.prefill.replicas > 1) && "
                "!(has(self.decode.replicas) && self.decode.replicas > 1) || "
                "!has(self.transfer.topology) || "
                "!self.transfer.topology.exists(t, t.key == 'kubernetes.io/hostname' && t.mode == 'Required')",
                ONE_PER_NODE,
            ),
        )
    )

    model: ModelSpec
    """What is served. Required: there is no sensible default model."""
    engine: EngineSpec = EngineSpec()
    """What prefill and decode engines have in common."""
    transfer: TransferSpec
    """How KV cache moves. Required: a guess between rdma and tcp would either fail or be slow."""
    prefill: RoleSpec = RoleSpec()
    """Engines that compute prompts."""
    decode: RoleSpec = RoleSpec()
    """Engines that fetch the prompts' KV cache and generate tokens."""
    proxy: ProxySpec = ProxySpec()
    """The endpoint in front of them."""
    verification: VerificationSpec = VerificationSpec()
    """How it is proven that KV cache moves."""
    suspend: bool = False
    """Scale engines and proxies to 0 and keep everything else."""


class PDServingGroup(Model):
    """One model served by prefill engines, decode engines and an OpenAI-compatible proxy in front of them."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(f"size(self.metadata.name) <= {MAX_NAME}", NAME_TOO_LONG),
            rule(f"self.metadata.name.matches('{NAME_PATTERN}')", NAME_INVALID),
        )
    )

    api_version: str
    """Version of this object's schema."""
    kind: str
    """PDServingGroup."""
    metadata: dict[str, Any]
    """Standard object metadata. The name has at most 35 characters."""
    spec: PDServingGroupSpec
    """What is wanted."""
    status: PDServingGroupStatus | None = None
    """What the operator saw."""
