"""The fabric suite: the same cluster and operator as the main suite, with RDMA-shaped devices on the nodes.

Only the self-contained cluster has them: its kubelets run in namespaces of this machine, where the plugin runs too.
"""

from collections.abc import Iterator

import pytest

from e2e.lib import fabric as fabrics
from e2e.lib.fabric import Fabric
from e2e.lib.groups import make_namespace
from e2e.lib.kubectl import Kubectl
from e2e.lib.target import Target

NAMESPACE = "pdserving-fabric"
ORDER = ("test_devices", "test_preflight", "test_rdma", "test_rails", "test_host_network")
"""What starts no engine comes first."""


@pytest.fixture(scope="session")
def fabric(target: Target) -> Iterator[Fabric]:
    if target.name != "self":
        pytest.skip(f"NOT RUN: CLUSTER={target.name} has no device plugin of ours; the fabric suite needs CLUSTER=self")
    found = fabrics.found()
    found.install()
    yield found
    found.remove()


@pytest.fixture(scope="session")
def kubectl(target: Target, fabric: Fabric) -> Iterator[Kubectl]:
    """kubectl in a namespace that allows IPC_LOCK and hostPath, as groups over RDMA need it."""
    yield make_namespace(target.kubectl, NAMESPACE, enforce="privileged")
    target.kubectl.delete("namespace", NAMESPACE, "--wait=false")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: ORDER.index(item.path.stem) if item.path.stem in ORDER else len(ORDER))
