"""Why a pod that has a node starts no container: its containers say only ContainerCreating, the events say why.

Multus tells twice of a network that does not exist: in an event of its own, `NoNetworkFound`, and through the kubelet,
whose event may be cut off before the cause (1024 characters, and Multus' thick plugin puts a dump of its input first).
"""

import re
from datetime import timedelta
from typing import Final

from pdserving.api import conditions as c
from pdserving.api.labels import PROXY, ROLE_LABEL
from pdserving.core.events import find_newest, message_of, seen
from pdserving.core.observed import Object, Observed
from pdserving.core.proxy_secrets import REMEDIES
from pdserving.core.template import look_up
from pdserving.core.timestamps import parse_time
from pdserving.core.view import labels_of, name_of

SANDBOX, NETWORK, CLAIM = "FailedCreatePodSandBox", "NoNetworkFound", "FailedPrepareDynamicResources"
VOLUMES: Final = ("FailedMount", "FailedAttachVolume", "Failed")
VOLUME: Final = re.compile(r'for volume "([^"]+)"')
SUMMARY: Final = re.compile(r"^Unable to attach or mount volumes")
"""The kubelet's second event, which has no cause in it."""
NO_NETWORK: Final = re.compile(r"cannot find a network-attachment-definition \(([^)]*)\) in namespace \(([^)]*)\)")
"""multus-cni, `getKubernetesDelegate`."""
TOGETHER: Final = timedelta(minutes=1)
"""Both of Multus' reports come from one attempt; an older one may be of a network that has been made since."""
RUNNING: Final = (
    (re.compile(r"^\(combined from similar events\): "), ""),
    (re.compile(r"'&\{.*?(\} ERRORED: |$)", re.DOTALL), ""),
    (re.compile(r' "?[0-9a-f]{64}"?'), ""),
    (re.compile(r"/var/run/netns/\S+?(?=[\s\"':,]|$)"), "its network namespace"),
)
"""What differs from attempt to attempt: a status would be written at each."""


def explain_unstarted(pod: Object, observed: Observed) -> tuple[str, str] | None:
    """Reason and text, by the newest complaint; None if nobody complains."""
    reasons = (SANDBOX, NETWORK, CLAIM, *VOLUMES)
    event = find_newest(observed, pod, reasons, unlike=SUMMARY) or find_newest(observed, pod, reasons)
    if event is None:
        return None
    if network := _find_network(pod, observed, event):
        name, namespace = network
        return c.NETWORK_NOT_FOUND, (
            f"pod {name_of(pod)} gets no network: there is no NetworkAttachmentDefinition {name} in namespace "
            f"{namespace}; create it, or correct spec.transfer.rdma.hostDevice.networks (NAMESPACE/NAME for another "
            "namespace) or the annotation in the role's template"
        )
    text, node = message_of(event), look_up(pod, ("spec", "nodeName"))
    where = f"pod {name_of(pod)} can't start its containers"
    if event.get("reason") in (SANDBOX, NETWORK):
        return c.SANDBOX_FAILED, f"{where}: {_settle(text)}; see the log of the network plugin on node {node}"
    if event.get("reason") == CLAIM:
        return c.RESOURCE_CLAIM_FAILED, f"{where}: {text}; see the log of the DRA driver on node {node}"
    return c.VOLUME_NOT_MOUNTED, f"{where}: {text}{_find_remedy(pod, text)}"


def _find_remedy(pod: Object, text: str) -> str:
    """For a Secret that a field of the proxy names."""
    volume = VOLUME.search(text) if labels_of(pod).get(ROLE_LABEL) == PROXY else None
    return f"; {REMEDIES[volume[1]]}" if volume and volume[1] in REMEDIES else ""


def _find_network(pod: Object, observed: Observed, newest: Object) -> tuple[str, str] | None:
    """Name and namespace of the network that Multus misses, if that is the complaint."""
    if newest.get("reason") not in (SANDBOX, NETWORK):
        return None
    own = find_newest(observed, pod, (NETWORK,))
    same_attempt = [newest, *([own] if own and _of_one_attempt(own, newest) else [])]
    found = [match for event in same_attempt if (match := NO_NETWORK.search(message_of(event)))]
    return (found[0][1], found[0][2]) if found else None


def _of_one_attempt(first: Object, second: Object) -> bool:
    earlier, later = parse_time(seen(first)), parse_time(seen(second))
    return earlier is not None and later is not None and abs(later - earlier) <= TOGETHER


def _settle(text: str) -> str:
    for pattern, replacement in RUNNING:
        text = pattern.sub(replacement, text)
    return text.strip(" :\n")
