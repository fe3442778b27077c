"""What the operator writes into a proxy pod is a command line that the proxy understands."""

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from pdserving.cli.main import build_parser, main
from pdserving.cli.proxy import read_config
from pdserving.proxy.config import Config

GOLDEN = Path(__file__).parents[1] / "core/golden"
INNER = {
    "header_timeout",
    "handshake_timeout",
    "keep_alive_timeout",
    "max_head_bytes",
    "connect_timeout",
    "query_interval",
}
"""Not to be set."""


def read(case: str) -> Config:
    """From the arguments of the group's proxy pods."""
    objects = yaml.safe_load_all((GOLDEN / case / "objects.yaml").read_text())
    pod = next(found for found in objects if found["kind"] == "Deployment")["spec"]["template"]["spec"]
    command, *args = pod["containers"][0]["args"]
    return read_config(build_parser([command]).parse_args([command, *args]))


@pytest.mark.parametrize("case", [path.name for path in GOLDEN.iterdir() if path.is_dir()])
def test_arguments_of_a_proxy_pod_are_understood(case: str) -> None:
    assert read(case)


def test_a_plain_group_has_the_proxys_own_defaults() -> None:
    assert read("tiny-cpu") == Config(verify_interval=600)


def test_half_a_certificate_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["proxy", "--decode=http://127.0.0.1:1", "--tls-cert-file=/x"])
    assert "--tls-cert-file and --tls-key-file go together" in capsys.readouterr().out


def test_every_field_of_a_group_reaches_the_proxy() -> None:
    turned, default = read("customised"), Config()
    same = {field.name for field in fields(Config) if getattr(turned, field.name) == getattr(default, field.name)}
    assert same == INNER
