"""Everything that a group consists of: pure builders, one kind a file."""

from typing import Any

from pdserving.api import labels
from pdserving.core.actions import Defaults
from pdserving.core.diff import stamp
from pdserving.core.group import Group
from pdserving.core.resources.deployment import build_proxy_deployment
from pdserving.core.resources.disruption_budget import build_budget
from pdserving.core.resources.network_policy import build_engine_policy, build_proxy_policy
from pdserving.core.resources.role import build_proxy_role
from pdserving.core.resources.role_binding import build_proxy_role_binding
from pdserving.core.resources.service import build_bootstrap_service, build_decode_service, build_endpoint_service
from pdserving.core.resources.service_account import build_proxy_account
from pdserving.core.resources.stateful_set import build_engine_set


def build_objects(group: Group, lane: str, images: tuple[str, str], defaults: Defaults) -> tuple[dict[str, Any], ...]:
    """All objects in the order in which to apply them, each stamped with its hash.

    What engines need before their first packet (policies, names) comes before them, the proxies last. `images` are
    those of prefill and decode. Raises `TemplateError` if a user's template can't be merged.
    """
    proxy_image = group.spec.proxy.image or defaults.proxy_image
    pull_policy = group.spec.proxy.image_pull_policy or defaults.proxy_image_pull_policy
    objects = (
        build_engine_policy(group),
        build_proxy_policy(group, defaults.operator_namespace),
        build_bootstrap_service(group),
        build_decode_service(group),
        build_endpoint_service(group),
        build_engine_set(group, "prefill", lane, images[0], defaults),
        build_engine_set(group, "decode", lane, images[1], defaults),
        build_proxy_account(group),
        build_proxy_role(group),
        build_proxy_role_binding(group),
        build_proxy_deployment(group, proxy_image, pull_policy),
        *(build_budget(group, role) for role in (labels.PREFILL, labels.DECODE, labels.PROXY)),
    )
    return tuple(stamp(manifest) for manifest in objects)
