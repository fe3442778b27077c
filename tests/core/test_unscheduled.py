"""From the scheduler's and the claim controller's words to a reason and the remedy.

Texts are those of Kubernetes 1.34, put together from its source: no cluster with a DRA driver was at hand.
"""

from typing import Any

import pytest

from pdserving.api import conditions as c
from pdserving.core.failures import Failure, diagnose_pod
from pdserving.core.observed import Observed

NOT_FOUND = (
    'PodResourceClaim hcas: resource claim template "gpu-and-hca": '
    'resourceclaimtemplate.resource.k8s.io "gpu-and-hca" not found'
)
NO_ADMIN = "PodResourceClaim hcas: admin access is requested, but the feature is disabled"
QUOTA = (
    "PodResourceClaim hcas: create ResourceClaim : resourceclaims.resource.k8s.io "
    '"p-0-hcas-x7k2f" is forbidden: exceeded quota: few, requested: count/resourceclaims.resource.k8s.io=1'
)


def make_waiting_pod(name: str = "hcas", **status: Any) -> dict[str, Any]:
    """A pod whose claim is to be made from a template; keyword arguments are fields of its status."""
    return {
        "kind": "Pod",
        "metadata": {"name": "p-0", "namespace": "serving", "uid": "p-0-uid"},
        "spec": {"resourceClaims": [{"name": name, "resourceClaimTemplateName": "gpu-and-hca"}]},
        "status": {"phase": "Pending", **status},
    }


def diagnose(pod: dict[str, Any], *reports: str, reason: str = "FailedResourceClaimCreation") -> Failure:
    subject = {"kind": "Pod", "name": "p-0", "uid": "p-0-uid"}
    events = tuple({"involvedObject": subject, "reason": reason, "message": report} for report in reports)
    failure = diagnose_pod(pod, Observed(events=events))
    assert failure is not None
    return failure


def unscheduled(message: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}


def test_a_claim_template_that_does_not_exist_is_named() -> None:
    assert diagnose(make_waiting_pod(), NOT_FOUND) == Failure(
        c.RESOURCE_CLAIM_FAILED,
        'pod p-0 waits for its ResourceClaim: resource claim template "gpu-and-hca": '
        'resourceclaimtemplate.resource.k8s.io "gpu-and-hca" not found; create ResourceClaimTemplate gpu-and-hca in '
        "namespace serving, or correct spec.transfer.rdma.resourceClaim.templateName",
    )


def test_a_claim_of_the_users_template_has_its_own_remedy() -> None:
    failure = diagnose(make_waiting_pod("gpus"), NOT_FOUND.replace("hcas", "gpus"))
    assert failure.message.endswith("or correct the role's template")


def test_a_template_that_cannot_be_used_is_to_be_corrected() -> None:
    failure = diagnose(make_waiting_pod(), NO_ADMIN)
    assert failure.reason == c.RESOURCE_CLAIM_FAILED
    assert failure.message.endswith("the feature is disabled; correct ResourceClaimTemplate gpu-and-hca")


def test_a_quota_on_claims_is_told_without_the_name_that_changes_at_each_attempt() -> None:
    first, second = diagnose(make_waiting_pod(), QUOTA), diagnose(make_waiting_pod(), QUOTA.replace("x7k2f", "p9q4z"))
    assert first == second
    assert first.reason == c.QUOTA_EXCEEDED
    assert "exceeded quota: few" in first.message


def test_a_claim_that_nobody_makes_and_nobody_complains_of_may_still_come() -> None:
    failure = diagnose(make_waiting_pod())
    assert (failure.reason, failure.blocking) == (c.STARTING, False)
    assert "ResourceClaimTemplate gpu-and-hca" in failure.message
    assert "resource.k8s.io/v1" in failure.message


def test_an_old_complaint_does_not_outlive_the_claim() -> None:
    made = make_waiting_pod(resourceClaimStatuses=[{"name": "hcas", "resourceClaimName": "p-0-hcas-x7k2f"}])
    assert diagnose(made, NOT_FOUND).reason == c.STARTING
    assert "ResourceClaim" not in diagnose(made, NOT_FOUND).message
    placed = make_waiting_pod()
    placed["spec"]["nodeName"] = "n1"
    assert "ResourceClaim" not in diagnose(placed, NOT_FOUND).message


def test_a_claim_that_exists_by_name_needs_no_template() -> None:
    pod = make_waiting_pod()
    pod["spec"]["resourceClaims"] = [{"name": "shared", "resourceClaimName": "nics"}]
    assert diagnose(pod).message == "pod p-0 is being created"


@pytest.mark.parametrize(
    ("report", "remedy"),
    [
        ("request hca: device class mlx.example.com does not exist", "install the driver that brings this DeviceClass"),
        ("3 cannot allocate all claims", "compare the ResourceClaimTemplate with `kubectl get resourceslices`"),
        ("3 node(s) didn't match pod affinity rules", "make the rule in spec.transfer.topology Preferred"),
        ("3 Insufficient rdma/ib", "add or free nodes, or ask for less"),
    ],
)
def test_the_schedulers_words_get_their_remedy(report: str, remedy: str) -> None:
    message = (
        f"0/3 nodes are available: {report}. still not schedulable, preemption: 0/3 nodes are available: "
        "3 Preemption is not helpful for scheduling."
    )
    made = make_waiting_pod(resourceClaimStatuses=[{"name": "hcas"}], **unscheduled(message))
    failure = diagnose(made)
    assert failure.reason == c.UNSCHEDULABLE
    assert failure.message.startswith(f"pod p-0 can't be scheduled: 0/3 nodes are available: {report}; ")
    assert remedy in failure.message


def test_a_driver_that_cannot_prepare_the_claim_is_named_by_its_node() -> None:
    pod = make_waiting_pod(resourceClaimStatuses=[{"name": "hcas"}])
    pod["spec"]["nodeName"] = "n1"
    report = "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources: rpc error"
    failure = diagnose(pod, report, reason="FailedPrepareDynamicResources")
    assert failure.reason == c.RESOURCE_CLAIM_FAILED
    assert failure.message == (
        f"pod p-0 can't start its containers: {report}; see the log of the DRA driver on node n1"
    )
