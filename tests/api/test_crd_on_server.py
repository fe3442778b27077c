"""A real API server takes the CRD, accepts every valid sample and refuses every invalid one in the expected words.

All samples of a kind go through one kubectl: a process for each would cost a minute.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.paths import program

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent / "samples"
VALID = sorted([*(SAMPLES / "valid").glob("*.yaml"), *ROOT.glob("examples/*/pdgroup.yaml")])
INVALID = sorted((SAMPLES / "invalid").glob("*.yaml"))
GOLDEN = sorted((ROOT / "tests/core/golden").glob("*/objects.yaml"))
Answer = subprocess.CompletedProcess[str]

pytestmark = pytest.mark.api


class Kubectl:
    def __init__(self, kubeconfig: Path) -> None:
        self.command = (str(program("kubectl")), f"--kubeconfig={kubeconfig}")

    def __call__(self, *args: str, stdin: str | None = None) -> Answer:
        return subprocess.run(
            [*self.command, *args], input=stdin, capture_output=True, text=True, check=False, timeout=120
        )


@pytest.fixture(scope="module")
def kubectl(api_server: ControlPlane) -> Kubectl:
    """The server has the checked-in CRD already; objects of the golden files lie in a namespace of their own."""
    kubectl = Kubectl(api_server.kubeconfig)
    kubectl("create", "namespace", "serving")
    return kubectl


def name_of(path: Path) -> str:
    """Each sample under the name of its file, or of its folder; those that are about the name keep theirs."""
    name = yaml.safe_load(path.read_text())["metadata"]["name"]
    return name if path.stem.startswith("name-") else path.parent.name if path.stem == "pdgroup" else path.stem[:35]


def dry_run(kubectl: Kubectl, paths: Sequence[Path]) -> Answer:
    groups = [{**yaml.safe_load(path.read_text()), "metadata": {"name": name_of(path)}} for path in paths]
    return kubectl("apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(groups))


@pytest.fixture(scope="module")
def accepted(kubectl: Kubectl) -> Answer:
    return dry_run(kubectl, VALID)


@pytest.fixture(scope="module")
def refused(kubectl: Kubectl) -> Answer:
    return dry_run(kubectl, INVALID)


@pytest.mark.parametrize("path", VALID, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_valid_samples_are_accepted(accepted: Answer, path: Path) -> None:
    assert f"/{name_of(path)} created" in accepted.stdout, accepted.stderr


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid_samples_are_refused_with_the_remedy(refused: Answer, path: Path) -> None:
    assert f"/{name_of(path)} created" not in refused.stdout
    assert path.read_text().splitlines()[0].removeprefix("# ") in refused.stderr


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.parent.name)
def test_rendered_objects_are_accepted(kubectl: Kubectl, path: Path) -> None:
    answer = kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", str(path))
    assert answer.returncode == 0, answer.stderr
