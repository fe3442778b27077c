"""Condition types and reasons: the part of the API that people and alerts read.

Each type and each reason is declared here once. Types are few; a reason is CamelCase and stable; the message beside it
may change from release to release. A type that is not declared here is never written.
"""

from typing import Final

READY: Final = "Ready"
"""The group answers requests by prefill and decode."""
RECONCILING: Final = "Reconciling"
"""The cluster is on its way to what the spec asks (kstatus)."""
STALLED: Final = "Stalled"
"""The way is blocked: without a change by somebody nothing will improve (kstatus)."""
SPEC_VALID: Final = "SpecValid"
PREFLIGHT_PASSED: Final = "PreflightPassed"
"""The engine pods found usable HCAs, memory limits and addresses; only with protocol rdma and a preflight."""
BOOTSTRAP_READY: Final = "BootstrapReady"
"""Every ready prefill engine has registered all its ranks in its bootstrap server, as the proxies see it."""
KV_TRANSFER_VERIFIED: Final = "KVTransferVerified"
"""KV cache moved between engines and gave right tokens, by canaries of the proxies and the engines' own counters."""
RDMA_DEGRADED: Final = "RDMADegraded"
"""KV cache moves at a rate that is no RDMA's; only with protocol rdma, a preflight and canaries."""
PREFILL_AVAILABLE: Final = "PrefillAvailable"
DECODE_AVAILABLE: Final = "DecodeAvailable"
PROXY_AVAILABLE: Final = "ProxyAvailable"

TYPES: Final = (
    READY,
    RECONCILING,
    STALLED,
    SPEC_VALID,
    PREFLIGHT_PASSED,
    BOOTSTRAP_READY,
    KV_TRANSFER_VERIFIED,
    RDMA_DEGRADED,
    PREFILL_AVAILABLE,
    DECODE_AVAILABLE,
    PROXY_AVAILABLE,
)
"""In the order in which status lists them."""

# Ready
SERVING: Final = "Serving"
SERVING_PREVIOUS_LANE: Final = "ServingPreviousLane"
SERVING_LAST_VALID_SPEC: Final = "ServingLastValidSpec"
NOT_SERVING: Final = "NotServing"
KV_TRANSFER_NOT_VERIFIED: Final = "KVTransferNotVerified"
SUSPENDED: Final = "Suspended"

# Reconciling
SETTLED: Final = "Settled"
CREATING: Final = "Creating"
SCALING: Final = "Scaling"
ROLLING_OUT: Final = "RollingOut"
CHANGING_LANE: Final = "ChangingLane"
RETRYING: Final = "Retrying"

# Stalled
PROGRESSING: Final = "Progressing"

# SpecValid
VALID: Final = "Valid"
INVALID_SPEC: Final = "InvalidSpec"
INVALID_TEMPLATE: Final = "InvalidTemplate"
REJECTED: Final = "Rejected"
"""The API server refused an object that we rendered from the spec."""

# The API server would not let us write
FORBIDDEN: Final = "Forbidden"
NAME_TAKEN: Final = "NameTaken"
"""An object of that name exists and is not the group's."""

# PreflightPassed; the same reasons tell why a pod is not let start
ALL_PASSED: Final = "AllPassed"
PREFLIGHT_PENDING: Final = "PreflightPending"
PREFLIGHT_FAILED: Final = "PreflightFailed"
TRANSPORT_NOT_FORCED: Final = "TransportNotForced"
NO_HCA: Final = "NoHca"
NO_RDMA_DEVICE: Final = "NoRdmaDevice"
RDMA_DEVICE_COUNT: Final = "RdmaDeviceCount"
PORT_NOT_ACTIVE: Final = "PortNotActive"
LINK_LAYERS_MIXED: Final = "LinkLayersMixed"
"""Within one pod."""
LINK_LAYERS_DIFFER: Final = "LinkLayersDiffer"
"""Between prefill and decode."""
PARTITION_LIMITED: Final = "PartitionLimited"
NO_USABLE_GID: Final = "NoUsableGid"
MEMLOCK_TOO_LOW: Final = "MemlockTooLow"
GPU_DIRECT_UNAVAILABLE: Final = "GpuDirectUnavailable"
SHM_TOO_SMALL: Final = "ShmTooSmall"
HOST_IP_INVALID: Final = "HostIpInvalid"

# BootstrapReady
ALL_REGISTERED: Final = "AllRegistered"
RANKS_MISSING: Final = "RanksMissing"
BOOTSTRAP_UNREACHABLE: Final = "BootstrapUnreachable"
NO_READY_PREFILL: Final = "NoReadyPrefill"
NO_PROXY_REPORT: Final = "NoProxyReport"

# KVTransferVerified; all but the last two also tell what came of a canary
VERIFIED: Final = "Verified"
NO_KV_MOVED: Final = "NoKVMoved"
"""D computed the prompt that it should have fetched."""
WRONG_TOKENS: Final = "WrongTokens"
"""With fetched KV cache D answers otherwise than with its own."""
TRANSFER_TIMED_OUT: Final = "TransferTimedOut"
TRANSFER_FAILED: Final = "TransferFailed"
SYMPTOMS: Final = (NO_KV_MOVED, WRONG_TOKENS, TRANSFER_TIMED_OUT, TRANSFER_FAILED)
VERIFYING: Final = "Verifying"
ENGINES_BUSY: Final = "EnginesBusy"
"""A canary waits until the engines' queues are empty."""
CANARY_REFUSED: Final = "CanaryRefused"
"""An engine asks for an API key, or takes no prompt of the canary's length."""
CANARY_INCONCLUSIVE: Final = "CanaryInconclusive"
KV_MOVES: Final = "KVMoves"
"""This and the next without canaries: what the counters say of real traffic."""
NO_TRANSFER_SEEN: Final = "NoTransferSeen"

# RDMADegraded
SLOW_TRANSFERS: Final = "SlowTransfers"
RATE_AS_EXPECTED: Final = "RateAsExpected"
RATE_UNKNOWN: Final = "RateUnknown"

# PrefillAvailable, DecodeAvailable, ProxyAvailable
ALL_READY: Final = "AllReady"
SOME_READY: Final = "SomeReady"
NONE_READY: Final = "NoneReady"
SCALED_TO_ZERO: Final = "ScaledToZero"

# Why a pod is not ready
STARTING: Final = "Starting"
UNSCHEDULABLE: Final = "Unschedulable"
RESOURCE_CLAIM_FAILED: Final = "ResourceClaimFailed"
"""Dynamic resource allocation: no claim could be made from the template, or the node's driver could not prepare it."""
IMAGE_PULL_FAILED: Final = "ImagePullFailed"
CONTAINER_CONFIG_INVALID: Final = "ContainerConfigInvalid"
NETWORK_NOT_FOUND: Final = "NetworkNotFound"
"""A NetworkAttachmentDefinition that a pod names does not exist."""
SANDBOX_FAILED: Final = "SandboxFailed"
"""The node's network plugin or container runtime could not set the pod up."""
VOLUME_NOT_MOUNTED: Final = "VolumeNotMounted"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
POD_SECURITY_VIOLATION: Final = "PodSecurityViolation"
POD_CREATE_FAILED: Final = "PodCreateFailed"
MODEL_NOT_FOUND: Final = "ModelNotFound"
MODEL_ACCESS_DENIED: Final = "ModelAccessDenied"
INVALID_ENGINE_ARGUMENTS: Final = "InvalidEngineArguments"
OUT_OF_MEMORY: Final = "OutOfMemory"
ENGINE_CRASHED: Final = "EngineCrashed"
ENGINE_DIED: Final = "EngineDied"
"""The engine process ended with exit code 0: vLLM does so after an EngineDeadError."""
UNHEALTHY: Final = "Unhealthy"
TERMINATING: Final = "Terminating"
