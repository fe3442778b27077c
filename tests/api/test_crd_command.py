"""``pdserving crd`` prints what is checked in."""

from pathlib import Path

import pytest
import yaml

from pdserving.api.crd import build_crd
from pdserving.cli.crd import render_crd
from pdserving.cli.main import main

CHECKED_IN = Path(__file__).parents[2] / "crds" / "pdserving.dev_pdservinggroups.yaml"


def test_the_checked_in_crd_is_current() -> None:
    assert CHECKED_IN.read_text() == render_crd(), "run make generate"


def test_the_text_is_the_object_without_anchors() -> None:
    text = render_crd()
    assert yaml.safe_load(text) == build_crd()
    assert "&id" not in text


def test_the_command_prints_it_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["crd"])
    assert end.value.code in (None, 0)
    assert capsys.readouterr().out == render_crd()
