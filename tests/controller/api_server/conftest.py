import uuid
from collections.abc import AsyncIterator

import pytest

from e2e.cluster.control_plane import ControlPlane
from pdserving.kube.client import KubeClient
from tests.support.api import Api


@pytest.fixture
async def api(api_server: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    """An administrator in a namespace of the test's own."""
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    async with KubeClient.connect() as client:
        made = Api(client, f"test-{uuid.uuid4().hex[:8]}")
        await made.create_namespace()
        yield made
