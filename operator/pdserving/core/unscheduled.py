"""Why a pod has no node: the scheduler's words with the remedy, and claims that are not made, of which it says nothing.

A pod whose ResourceClaims are not made yet does not come before the scheduler at all, so its conditions are silent and
only an event of the resource claim controller tells. Texts are those of Kubernetes 1.34, from its source
(pkg/controller/resourceclaim, pkg/scheduler/framework/plugins/dynamicresources and interpodaffinity).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from pdserving.api import conditions as c
from pdserving.core.events import find_newest, message_of
from pdserving.core.observed import Object, Observed
from pdserving.core.resources.hca import CLAIM
from pdserving.core.template import look_up
from pdserving.core.view import name_of, objects_in

PREEMPTION: Final = re.compile(r" ((no new claims to deallocate|still not schedulable), )?preemption: .*$")
"""Why the scheduler could not evict others: true, and no help."""
REMEDIES: Final = (
    ("device class", "install the driver that brings this DeviceClass, or correct the ResourceClaimTemplate"),
    (
        "cannot allocate all claims",
        "compare the ResourceClaimTemplate with `kubectl get resourceslices`, and free devices or add nodes",
    ),
    (
        "didn't match pod affinity rules",
        "make room where the engines that run stand, or make the rule in spec.transfer.topology Preferred",
    ),
)
"""Words of the scheduler, remedy."""
CLAIM_PREFIX: Final = re.compile(r"^PodResourceClaim \S+: ")
GENERATED: Final = re.compile(r'-[a-z0-9]{5}(?=" is forbidden)')
"""Of a claim's name, another one at each attempt."""


def explain_unscheduled(report: str) -> str:
    """The scheduler's report with what to do."""
    text = PREEMPTION.sub("", report).rstrip(". ")
    remedy = next((remedy for words, remedy in REMEDIES if words in text), "add or free nodes, or ask for less")
    return f"{text}; {remedy}"


def explain_unmade_claim(pod: Object, observed: Observed) -> tuple[str, str] | None:
    """Reason and text for a pod that waits for a ResourceClaim; None if it does not.

    `Starting` where nobody complains: claims are made within seconds, or never if no controller is there for them.
    """
    claim = _find_unmade(pod)
    if claim is None:
        return None
    template, text = claim["resourceClaimTemplateName"], f"pod {name_of(pod)} waits for its ResourceClaim"
    report = message_of(find_newest(observed, pod, ("FailedResourceClaimCreation",)))
    if not report:
        return c.STARTING, f"{text} from ResourceClaimTemplate {template}; the cluster must serve resource.k8s.io/v1"
    cause = GENERATED.sub("", CLAIM_PREFIX.sub("", report))
    if "exceeded quota" in cause:
        return c.QUOTA_EXCEEDED, f"{text}: {cause}; raise the ResourceQuota or ask for less"
    return c.RESOURCE_CLAIM_FAILED, f"{text}: {cause}; {_name_remedy(pod, claim, cause)}"


def _find_unmade(pod: Object) -> Mapping[str, Any] | None:
    """The first claim that is to be made from a template and is not. On a node a pod has all of them."""
    if look_up(pod, ("spec", "nodeName")):
        return None
    made = {status.get("name") for status in objects_in(look_up(pod, ("status", "resourceClaimStatuses")))}
    wanted = objects_in(look_up(pod, ("spec", "resourceClaims")))
    unmade = (claim for claim in wanted if claim.get("name") not in made)
    return next((claim for claim in unmade if claim.get("resourceClaimTemplateName")), None)


def _name_remedy(pod: Object, claim: Mapping[str, Any], cause: str) -> str:
    """Claims of other names come from the user's pod template."""
    template = claim["resourceClaimTemplateName"]
    if "not found" not in cause:
        return f"correct ResourceClaimTemplate {template}"
    field = "spec.transfer.rdma.resourceClaim.templateName" if claim.get("name") == CLAIM else "the role's template"
    namespace = look_up(pod, ("metadata", "namespace"))
    return f"create ResourceClaimTemplate {template} in namespace {namespace}, or correct {field}"
