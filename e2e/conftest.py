"""One cluster, one installation of the chart and one serving group for all tests of a suite.

Engines need most of the time and memory here, so tests share them and leave them as they found them. A test that
fails is followed by the conditions, events and logs of the namespaces that the suite uses.
"""

import os
from collections.abc import Generator, Iterator

import pytest

from e2e.lib import plain as plain_engine
from e2e.lib import target as clusters
from e2e.lib.asking import Question, ask
from e2e.lib.evidence import gather
from e2e.lib.groups import START_SECONDS, Group, example_spec, make_namespace, merged
from e2e.lib.kubectl import Kubectl
from e2e.lib.plain import Plain
from e2e.lib.release import NAMESPACE as OPERATOR_NAMESPACE
from e2e.lib.release import Release
from e2e.lib.target import Target
from e2e.lib.waiting import eventually

NAMESPACE = "pdserving-e2e"
GROUP = "tiny"
RESYNC_SECONDS = 10
WATCHED = [OPERATOR_NAMESPACE, NAMESPACE]
MOST_EVIDENCE = 3
_evidence_from: list[Kubectl] = []
_shown: list[str] = []


@pytest.fixture(scope="session")
def target() -> Target:
    try:
        found = clusters.start()
    except clusters.MissingNeedError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NOT RUN: the whole suite needs a cluster. {missing}")
    _evidence_from[:] = [found.kubectl]
    return found


@pytest.fixture(scope="session")
def release(target: Target) -> Release:
    """The operator, with resyncs so frequent that a suite sees several."""
    installed = Release(target.kubectl.within(OPERATOR_NAMESPACE), target.helm)
    installed.install(target.operator_image, resyncSeconds=RESYNC_SECONDS, defaultEngineImage=target.engine_image)
    return installed


@pytest.fixture(scope="session")
def kubectl(target: Target) -> Iterator[Kubectl]:
    """kubectl in the suite's namespace, which enforces Pod Security `restricted`."""
    yield make_namespace(target.kubectl, NAMESPACE)
    if not os.environ.get("PDSERVING_KEEP"):
        target.kubectl.delete("namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="session")
def starting(target: Target, release: Release, kubectl: Kubectl) -> Group:
    """The shared group and the plain engine, applied; they start side by side.

    Without canaries, which would move KV cache beside the tests that count it; `test_verified` turns them on.
    """
    kubectl.apply(plain_engine.pod(target.engine_image), plain_engine.service())
    group = Group(kubectl, GROUP)
    spec = example_spec(target.engine_image)
    args = [*spec["engine"]["args"], *plain_engine.EXTRA_ARGS]
    group.apply(merged(spec, {"verification": {"mode": "Off"}, "engine": {"args": args}}))
    return group


@pytest.fixture(scope="session")
def group(starting: Group) -> Group:
    """The shared group, serving with one P and one D."""
    starting.wait_ready()
    return starting


@pytest.fixture(scope="session")
def plain(target: Target, kubectl: Kubectl, starting: Group) -> Iterator[Plain]:
    """An engine without P/D, the source of right answers."""
    deadline = f"--timeout={START_SECONDS:.0f}s"
    kubectl.run("wait", "--for=condition=Ready", f"pod/{plain_engine.NAME}", deadline, timeout=START_SECONDS + 10)
    with target.reach(kubectl, plain_engine.NAME, 8000) as url:
        eventually("the plain engine answers", lambda: ask(url, WARM_UP), within=60)
        yield Plain(kubectl, url)


WARM_UP = Question("/v1/completions", {"prompt": [3, 4, 5], "max_tokens": 1})


@pytest.fixture
def url(target: Target, kubectl: Kubectl, group: Group) -> Iterator[str]:
    """The group's OpenAI endpoint, as a client reaches it."""
    with target.reach(kubectl, group.name, 80) as address:
        yield address


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the cluster beside the first failures; later ones are mostly their consequences."""
    report = yield
    if report.failed and _evidence_from and len(_shown) < MOST_EVIDENCE:
        _shown.append(report.nodeid)
        report.sections.append(("the cluster", gather(_evidence_from[0], WATCHED)))
    return report
