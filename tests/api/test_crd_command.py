"""``pdserving crd`` prints what is checked in."""

from pathlib import Path

import yaml

from pdserving.api.crd import build_crd
from pdserving.cli.crd import render_crd

CHECKED_IN = Path(__file__).parents[2] / "crds" / "pdserving.dev_pdservinggroups.yaml"


def test_the_checked_in_crd_is_current() -> None:
    assert CHECKED_IN.read_text() == render_crd(), "run make generate"


def test_the_text_is_the_object_without_anchors() -> None:
    text = render_crd()
    assert yaml.safe_load(text) == build_crd()
    assert "&id" not in text
