"""The suite for a cluster with GPUs and an RDMA fabric: one group, which a file describes.

    make e2e SUITE=gpu CLUSTER=context GROUP=pdgroup.yaml OPERATOR_IMAGE=… ENGINE_IMAGE=…

Without GROUP, on the self-contained cluster alone, the same tests run on the tiny CPU model over the RDMA test double:
what they leave unproven then is the hardware.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lib import fabric as fabrics
from e2e.lib.fabric import rdma_spec
from e2e.lib.groups import Group, make_namespace
from e2e.lib.kubectl import Kubectl
from e2e.lib.release import Release
from e2e.lib.target import MissingNeedError, Target

NAMESPACE = "pdserving-gpu"


@pytest.fixture(scope="session")
def kubectl(target: Target) -> Iterator[Kubectl]:
    """kubectl in a namespace that allows what RDMA needs."""
    yield make_namespace(target.kubectl, NAMESPACE, enforce="privileged")
    target.kubectl.delete("namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="session")
def spec(target: Target) -> Iterator[dict[str, Any]]:
    if file := os.environ.get("GROUP"):
        yield yaml.safe_load(Path(file).read_text())["spec"]
        return
    if target.name != "self":
        raise MissingNeedError("SUITE=gpu on a cluster of yours needs GROUP=FILE: a PDServingGroup that fits it")
    fabric = fabrics.found()
    fabric.install()
    yield rdma_spec(target.engine_image)
    fabric.remove()


@pytest.fixture(scope="session")
def group(kubectl: Kubectl, release: Release, spec: dict[str, Any]) -> Group:
    found = Group(kubectl, "acceptance")
    found.apply(spec)
    found.wait_ready()
    return found
