"""A cluster that runs is replaced only for a reason, and the reason is told."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.cluster import lifecycle
from e2e.cluster.topology import NodePlan

RUNNING = lifecycle.CONTROL_PROGRAMS | lifecycle.NODE_PROGRAMS


@dataclass(frozen=True)
class FakeNode:
    plan: NodePlan
    running: set[str]
    dead: frozenset[str] = frozenset()

    def components(self) -> dict[str, bool]:
        return dict.fromkeys(self.running, True) | dict.fromkeys(self.dead, False)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cluster.json"
    monkeypatch.setattr(lifecycle, "RECORD", path)
    monkeypatch.setattr(lifecycle, "_answers", lambda: True)
    return path


def run(monkeypatch: pytest.MonkeyPatch, record: Path, *nodes: FakeNode) -> None:
    monkeypatch.setattr(lifecycle, "nodes", lambda: list(nodes))
    record.write_text(json.dumps(lifecycle._identity(len(nodes))))


def test_a_sound_cluster_is_kept_whatever_tests_left_in_it(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, record, FakeNode(NodePlan(1), RUNNING, frozenset({"device-plugin"})))
    assert lifecycle.fault() == ""
    assert lifecycle.fault(1) == ""


def test_a_dead_component_is_named(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, record, FakeNode(NodePlan(1), RUNNING - {"kube-scheduler"}, frozenset({"kube-scheduler"})))
    assert lifecycle.fault() == "kube-scheduler of node1 does not run"


def test_only_the_first_node_needs_a_control_plane(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = FakeNode(NodePlan(2), set(lifecycle.NODE_PROGRAMS))
    run(monkeypatch, record, FakeNode(NodePlan(1), RUNNING), second)
    assert lifecycle.fault(2) == ""
    assert lifecycle.fault(1) == "it has 2 node(s), not 1"


def test_an_interrupted_start_and_other_versions_are_told_apart(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, record, FakeNode(NodePlan(1), RUNNING))
    record.write_text(json.dumps({"programs": "of long ago"}))
    assert "other versions" in lifecycle.fault()
    record.unlink()
    assert "interrupted" in lifecycle.fault()


def test_a_silent_api_server_is_a_fault(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, record, FakeNode(NodePlan(1), RUNNING))
    monkeypatch.setattr(lifecycle, "_answers", lambda: False)
    assert "does not answer" in lifecycle.fault()
