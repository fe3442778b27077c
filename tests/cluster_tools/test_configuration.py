"""What the cluster's programs are told."""

import json
import tarfile
from pathlib import Path

import pytest

from e2e.cluster import cgroups, components, node_components, topology
from e2e.cluster.components import Layout
from e2e.cluster.control_plane import free_ports
from e2e.cluster.pause import write_archive
from e2e.cluster.topology import NodePlan


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "bin", tmp_path, api_port=1001, etcd_port=1002, etcd_peer_port=1003)


def test_api_tier_stays_on_the_loopback(layout: Layout) -> None:
    programs = [components.etcd(layout), components.apiserver(layout), components.controller_manager(layout)]
    told = " ".join(argument for program in programs for argument in program.argv)
    assert "0.0.0.0" not in told
    assert "--bind-address=127.0.0.1" in components.apiserver(layout).argv
    assert "--etcd-servers=http://127.0.0.1:1002" in components.apiserver(layout).argv


def test_the_cluster_listens_where_nodes_reach_it() -> None:
    argv = components.apiserver(topology.LAYOUT).argv
    assert "--bind-address=0.0.0.0" in argv
    assert f"--advertise-address={topology.API_IP}" in argv
    assert topology.LAYOUT.server == "https://10.99.0.1:6443"


def test_every_request_is_audited(layout: Layout) -> None:
    assert components.AUDIT_POLICY["rules"] == [{"level": "Metadata"}]
    assert f"--audit-log-path={layout.audit_log}" in components.apiserver(layout).argv
    assert f"--audit-policy-file={layout.audit_policy}" in components.apiserver(layout).argv


def test_the_api_server_answers_to_all_its_names(layout: Layout) -> None:
    names = layout.api_names.split(",")
    assert names[:2] == ["IP:127.0.0.1", "IP:10.96.0.1"]
    assert "DNS:kubernetes.default.svc.cluster.local" in names
    assert "IP:10.99.0.1" in topology.LAYOUT.api_names.split(",")


def test_two_nodes_share_nothing() -> None:
    one, two = NodePlan(1), NodePlan(2)
    for attribute in ("name", "address", "pods", "port", "cgroup", "folder", "images"):
        assert getattr(one, attribute) != getattr(two, attribute)
    assert node_components.kubelet_config(one)["cgroupRoot"] != node_components.kubelet_config(two)["cgroupRoot"]


def test_interface_names_fit_the_kernel() -> None:
    assert len(NodePlan(topology.MOST_NODES).port) <= 15


@pytest.mark.parametrize(
    ("route", "taken"),
    [
        ("10.244.0.0/16", True),
        ("10.0.0.0/8", True),
        ("10.99.0.7", True),
        ("10.100.0.0/16", False),
        ("192.168.0.0/16", False),
    ],
)
def test_networks_of_the_machine_are_not_taken(route: str, taken: bool) -> None:
    assert topology.conflicts([route]) == ([route] if taken else [])


def test_pause_image_is_reproducible(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"program")
    first = write_archive(program, "localhost/pause:dev", tmp_path / "first.tar")
    program.touch()
    second = write_archive(program, "localhost/pause:dev", tmp_path / "second.tar")
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as tar:
        manifest = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
    assert manifest[0]["RepoTags"] == ["localhost/pause:dev"]


def test_hierarchies_of_both_cgroup_versions(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "cgroup.procs").touch()
    (tmp_path / "alias").symlink_to("memory")
    (tmp_path / "empty").mkdir()
    assert cgroups.hierarchies(tmp_path) == [tmp_path / "memory"]
    (tmp_path / "cgroup.controllers").touch()
    assert cgroups.hierarchies(tmp_path) == [tmp_path]


def test_free_ports_differ() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == len(ports)
