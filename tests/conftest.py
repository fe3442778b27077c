"""The api tier's API server: one for the whole run, started only if a test asks for it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.shell import ClusterError
from tests.support import refused_sockets
from tests.support.operator_process import OperatorProcess
from tests.support.rights import grant

CRD = Path(__file__).parents[1] / "crds/pdserving.dev_pdservinggroups.yaml"
REMEDY = "build the programs with `make test-api` or `python -m e2e.cluster build --only binaries`"


@pytest.fixture(scope="session")
def api_server() -> Iterator[ControlPlane]:
    """etcd, kube-apiserver and kube-controller-manager on the loopback, with our CRD."""
    with ExitStack() as stack:
        try:
            with refused_sockets.tolerated():
                plane = stack.enter_context(ControlPlane())
        except ClusterError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"NOT RUN: the api tier needs etcd and kube-apiserver; {REMEDY} ({error})")
        plane.kubectl("apply", "--server-side", "--validate=false", "-f", CRD)
        plane.kubectl("wait", "--for=condition=Established", "crd/pdservinggroups.pdserving.dev", "--timeout=60s")
        yield plane


@pytest.fixture(scope="module")
def operator(api_server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """
    The operator as a process, with the rights that the chart gives it and resyncs every 2 seconds.

    Gone when the module ends: it watches all namespaces and would do what a test expects of an
    operator of its own.
    """
    grant(api_server, "operator")
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with OperatorProcess(api_server.credentials("operator"), log, "--resync=2", "--lease-name=shared") as process:
        yield process
