"""Names of all objects of a group. None is ever derived elsewhere, and none is changed once released.

Longest: the revision label of prefill pods, ``<35>-prefill-<8>-<10>``, 63 characters.
"""

from typing import Literal

Role = Literal["prefill", "decode"]
DEFAULT_PORTS = {"http": 80, "https": 443}


def engine_set(group: str, role: Role, lane: str) -> str:
    return f"{group}-{role}-{lane}"


def bootstrap_service(group: str) -> str:
    return f"{group}-bootstrap"


def decode_service(group: str) -> str:
    return f"{group}-decode"


def proxy(group: str) -> str:
    """The proxy's Deployment, ServiceAccount, Role, RoleBinding, PodDisruptionBudget and NetworkPolicy."""
    return f"{group}-proxy"


def endpoint_service(group: str) -> str:
    return group


def budget(group: str, role: str) -> str:
    return f"{group}-{role}"


def engine_policy(group: str) -> str:
    return f"{group}-engines"


def endpoint(group: str, namespace: str, scheme: str, port: int) -> str:
    """Base URL for OpenAI clients inside the cluster."""
    shown = "" if port == DEFAULT_PORTS[scheme] else f":{port}"
    return f"{scheme}://{endpoint_service(group)}.{namespace}.svc{shown}/v1"


def bootstrap_address(group: str, namespace: str, port: int) -> str:
    """All prefill pods' bootstrap servers: a name that resolves to each of them, not one address to balance over."""
    return f"http://{bootstrap_service(group)}.{namespace}.svc:{port}"


def own_bootstrap_address(group: str, namespace: str, port: int) -> str:
    """A prefill pod's own bootstrap server; the kubelet puts the pod's name in."""
    return f"http://$(POD_NAME).{bootstrap_service(group)}.{namespace}.svc:{port}"
