"""The models agree with the CRD on the samples that a real API server judges in the api tier."""

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from pdserving.api.v1alpha1 import PDServingGroup

SAMPLES = Path(__file__).parent / "samples"
EXAMPLES = Path(__file__).parents[2] / "examples"
VALID = sorted([*(SAMPLES / "valid").glob("*.yaml"), *EXAMPLES.glob("*/pdgroup.yaml")])
BY_SERVER_ALONE = ("Invalid value: ", "metadata.name", "Duplicate value: ")
"""In messages of CEL and of list maps, which pydantic does not execute."""
SHAPE = [
    path
    for path in sorted((SAMPLES / "invalid").glob("*.yaml"))
    if not any(words in path.read_text().splitlines()[0] for words in BY_SERVER_ALONE)
]


@pytest.mark.parametrize("path", VALID, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_valid_samples_are_parsed(path: Path) -> None:
    group = PDServingGroup.model_validate(yaml.safe_load(path.read_text()))
    assert group.spec.model.source


@pytest.mark.parametrize("path", SHAPE, ids=lambda path: path.stem)
def test_samples_of_a_wrong_shape_are_refused(path: Path) -> None:
    with pytest.raises(ValidationError):
        PDServingGroup.model_validate(yaml.safe_load(path.read_text()))


def test_invalid_samples_say_what_is_expected() -> None:
    for path in (SAMPLES / "invalid").glob("*.yaml"):
        assert path.read_text().startswith("# "), f"{path.name}: the first line is the expected message"
