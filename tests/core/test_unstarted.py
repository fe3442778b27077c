"""From the events of a pod that starts no container to a reason and the remedy.

Texts are those of the kubelet and of multus-cni 3 and 4: of its source, and of reports of its users.
"""

from typing import Any

from pdserving.api import conditions as c
from pdserving.core.failures import Failure, diagnose_pod
from pdserving.core.observed import Observed
from tests.core.samples import make_pod

MISSING = (
    "cannot find a network-attachment-definition (rail-a) in namespace (fabric): "
    'network-attachment-definitions.k8s.cni.cncf.io "rail-a" not found'
)
THICK = (
    'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "{id}": '
    'plugin type="multus-shim" name="multus-cni-network" failed (add): CmdAdd (shim): CNI request failed with status '
    "400: '&{{ContainerID:{id} Netns:/var/run/netns/cni-{id:.8} IfName:eth0 StdinData:[123 34 99"
)
ANSWER = "]}} ERRORED: error configuring pod [serving/p-0] networking: [serving/p-0/p-0-uid:host-device]: no device\n'"
FIRST, SECOND = "7caa536a060bf581160dfade36a0a48ad13dff796ea6e281682e73fe3d1b7dc2", "2dd1f4" + "0" * 58


def event(reason: str, message: str, at: str = "10:00:00") -> dict[str, Any]:
    subject = {"kind": "Pod", "name": "p-0", "uid": "p-0-uid"}
    return {
        "involvedObject": subject,
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-12-01T{at}Z",
    }


def sandbox(message: str, at: str = "10:00:00") -> dict[str, Any]:
    return event("FailedCreatePodSandBox", message, at)


def diagnose(*events: dict[str, Any]) -> Failure:
    pod = make_pod("p-0", state={"waiting": {"reason": "ContainerCreating"}})
    pod["spec"] = {"nodeName": "n1"}
    failure = diagnose_pod(pod, Observed(events=events))
    assert failure is not None
    return failure


def test_a_network_that_does_not_exist_is_named() -> None:
    assert diagnose(event("NoNetworkFound", MISSING)) == Failure(
        c.NETWORK_NOT_FOUND,
        "pod p-0 gets no network: there is no NetworkAttachmentDefinition rail-a in namespace fabric; create it, or "
        "correct spec.transfer.rdma.hostDevice.networks (NAMESPACE/NAME for another namespace) or the annotation in "
        "the role's template",
    )


def test_the_kubelet_alone_tells_it_as_well() -> None:
    text = f'Failed to create pod sandbox: network for sandbox "{FIRST}": GetNetworkDelegates: failed: {MISSING}'
    assert diagnose(sandbox(text)).reason == c.NETWORK_NOT_FOUND


def test_where_the_kubelets_event_is_cut_off_multus_own_counts() -> None:
    cut = sandbox(THICK.format(id=FIRST), "10:00:02")
    assert diagnose(event("NoNetworkFound", MISSING), cut).reason == c.NETWORK_NOT_FOUND


def test_a_network_that_was_made_meanwhile_is_not_named_any_more() -> None:
    later = sandbox(THICK.format(id=FIRST) + ANSWER.format(), "10:05:00")
    failure = diagnose(event("NoNetworkFound", MISSING), later)
    assert failure.reason == c.SANDBOX_FAILED
    assert "rail-a" not in failure.message


def test_another_failure_of_the_network_is_told_alike_in_each_attempt() -> None:
    first, second = (diagnose(sandbox(THICK.format(id=id_) + ANSWER.format())) for id_ in (FIRST, SECOND))
    assert first == second
    assert first.reason == c.SANDBOX_FAILED
    assert first.blocking
    assert "error configuring pod [serving/p-0] networking" in first.message
    assert "StdinData" not in first.message
    assert first.message.endswith("; see the log of the network plugin on node n1")


def test_a_complaint_that_is_cut_off_keeps_what_is_the_same_in_each_attempt() -> None:
    first, second = (diagnose(sandbox(THICK.format(id=id_))) for id_ in (FIRST, SECOND))
    assert first == second
    assert "CNI request failed with status 400; see the log of the network plugin on node n1" in first.message


def test_a_runtime_that_repeats_itself_is_told_alike_too() -> None:
    text = f'Failed to create pod sandbox: failed to reserve sandbox name for "{FIRST}": netns /var/run/netns/cni-1: no'
    combined = f"(combined from similar events): {text.replace(FIRST, SECOND).replace('cni-1', 'cni-2')}"
    assert diagnose(sandbox(text)) == diagnose(sandbox(combined))


def test_the_newest_complaint_counts() -> None:
    volume = event("FailedMount", 'secret "x" not found', "10:07:00")
    failure = diagnose(event("NoNetworkFound", MISSING, "10:06:50"), volume)
    assert failure == Failure(c.VOLUME_NOT_MOUNTED, 'pod p-0 can\'t start its containers: secret "x" not found')
