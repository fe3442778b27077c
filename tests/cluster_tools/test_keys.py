"""What is cached is made anew when, and only when, something that decides its content changes."""

import dataclasses
from pathlib import Path

import pytest

from e2e.cluster import binaries, cache, packages, versions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "Dockerfile").write_text("FROM debian")
    return tmp_path / "inputs"


def test_content_key_follows_content_and_names(folder: Path) -> None:
    before = cache.content_key([folder])
    assert cache.content_key([folder]) == before
    (folder / "Dockerfile").write_text("FROM ubuntu")
    changed = cache.content_key([folder])
    (folder / "Dockerfile").rename(folder / "Containerfile")
    assert len({before, changed, cache.content_key([folder])}) == 3


def test_content_key_ignores_bytecode(folder: Path) -> None:
    before = cache.content_key([folder])
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert cache.content_key([folder]) == before


def test_content_key_does_not_confuse_where_one_file_ends(folder: Path) -> None:
    (folder / "a").write_text("xy")
    (folder / "b").write_text("z")
    before = cache.content_key([folder])
    (folder / "a").write_text("x")
    (folder / "b").write_text("yz")
    assert cache.content_key([folder]) != before


def test_a_new_version_of_one_tool_changes_its_key_only() -> None:
    etcd = versions.TOOLS[0]
    newer = dataclasses.replace(etcd, version="v99.0.0")
    assert versions.tool_key(newer) != versions.tool_key(etcd)
    assert versions.kubernetes_key() not in {versions.tool_key(tool) for tool in versions.TOOLS}


def test_an_interrupted_build_is_invisible_and_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.cluster.paths.CACHE", tmp_path)
    target = tmp_path / "thing-1"

    def interrupted(to: Path) -> None:
        (to / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.ensure(target, interrupted)
    assert not target.exists()
    cache.ensure(target, lambda to: (to / "whole").touch())
    assert [file.name for file in target.iterdir()] == ["whole"]


def test_what_is_there_is_not_built_again(tmp_path: Path) -> None:
    (tmp_path / "thing-1").mkdir()
    assert cache.ensure(tmp_path / "thing-1", lambda to: pytest.fail("built")) == tmp_path / "thing-1"


@pytest.mark.parametrize(
    ("output", "enough"),
    [
        ("go version go1.26.0 linux/amd64", True),
        ("go version go1.27rc1 linux/amd64", True),
        ("go version go1.25.9 linux/amd64", False),
        ("go version go1.3.0 linux/amd64", False),
        ("", False),
    ],
)
def test_go_is_new_enough(output: str, enough: bool) -> None:
    assert binaries.new_enough(output) is enough


def test_only_missing_packages_are_installed(tmp_path: Path) -> None:
    present = tmp_path / "bridge"
    present.touch()
    wanted = {str(present): "cni", "sh": "dash", "no-such-program-9": "nine", str(tmp_path / "absent"): "absent"}
    assert packages.missing(wanted) == ["absent", "nine"]
