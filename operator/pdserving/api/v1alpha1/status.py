"""``status``: what the operator saw. Nothing here is a wish, and nothing is guessed."""

from typing import Annotated, Literal

from pydantic import Field

from pdserving.api.v1alpha1.base import Model

MAX_GENERATION = 2**53 - 1
"""The API server reads a bound as a float, and refuses 2**63 - 1 for having become larger than an int64."""
Lane = Annotated[str, Field(max_length=8)]
Count = Annotated[int, Field(ge=0, le=2147483647)]
Time = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]


class Condition(Model):
    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What the condition speaks of."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    observed_generation: Annotated[int, Field(ge=0, le=MAX_GENERATION)]
    """Generation of the group from which this was concluded."""
    last_transition_time: Time
    """When status last changed."""
    reason: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """CamelCase word for programs."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """Sentence for people: what, on which object, in numbers, and what to do."""


class RoleStatus(Model):
    ready: Count = 0
    """Pods that are ready."""
    desired: Count = 0
    """Pods that are wanted."""
    updated: Count = 0
    """Pods that run the newest template."""
    summary: Annotated[str, Field(max_length=32)] = ""
    """ready/desired, for the columns of kubectl get."""


class PairStatus(Model):
    prefill: Annotated[str, Field(max_length=253)]
    """Pod of the prefill engine."""
    decode: Annotated[str, Field(max_length=253)]
    """Pod of the decode engine."""
    state: Literal["verified", "failed", "unknown"]
    """What canaries showed since both engines started."""
    error: Annotated[str, Field(max_length=512)] | None = None
    """Reason and details, if not verified."""


MAX_PAIRS = 32


class PDServingGroupStatus(Model):
    observed_generation: Annotated[int, Field(ge=0, le=MAX_GENERATION)] = 0
    """Generation of the spec that this status describes."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    """Ready sums the others up."""
    endpoint: Annotated[str, Field(max_length=512)] | None = None
    """Base URL for OpenAI clients inside the cluster."""
    lane: Lane | None = None
    """Lane whose prefill and decode engines serve requests."""
    target_lane: Lane | None = None
    """Lane that the spec asks for, while it comes up beside the serving one."""
    prefill: RoleStatus | None = None
    """Prefill engines of the serving lane, or of the one that comes up."""
    decode: RoleStatus | None = None
    """Decode engines of the serving lane, or of the one that comes up."""
    proxy: RoleStatus | None = None
    """Proxies."""
    pairs: Annotated[tuple[PairStatus, ...], Field(max_length=MAX_PAIRS)] | None = None
    """Pairs of ready engines as canaries saw them, failed ones first; of many only the first 32."""
