"""``pdserving.dev/v1alpha1``: the models from which the CRD is generated and with which the core reads specs."""

from pdserving.api.v1alpha1.engine import EngineSpec, EnvVar, Parallelism, Resources, RoleSpec
from pdserving.api.v1alpha1.group import MAX_NAME, PDServingGroup, PDServingGroupSpec
from pdserving.api.v1alpha1.model import ModelSource, ModelSpec
from pdserving.api.v1alpha1.proxy import (
    ProxyApiKey,
    ProxyDispatch,
    ProxyLimits,
    ProxyService,
    ProxySpec,
    ProxyTimeouts,
    ProxyTls,
)
from pdserving.api.v1alpha1.status import Condition, PairStatus, PDServingGroupStatus, RoleStatus
from pdserving.api.v1alpha1.transfer import DevicePlugin, Rdma, TransferSpec
from pdserving.api.v1alpha1.verification import VerificationSpec

__all__ = [
    "MAX_NAME",
    "Condition",
    "DevicePlugin",
    "EngineSpec",
    "EnvVar",
    "ModelSource",
    "ModelSpec",
    "PDServingGroup",
    "PDServingGroupSpec",
    "PDServingGroupStatus",
    "PairStatus",
    "Parallelism",
    "ProxyApiKey",
    "ProxyDispatch",
    "ProxyLimits",
    "ProxyService",
    "ProxySpec",
    "ProxyTimeouts",
    "ProxyTls",
    "Rdma",
    "Resources",
    "RoleSpec",
    "RoleStatus",
    "TransferSpec",
    "VerificationSpec",
]
