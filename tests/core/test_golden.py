"""Pairs of files: a group, and every object that it makes. Change the code, update the files, read the diff."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pdserving.core.observed import Observed
from pdserving.core.plan import plan
from tests.core.samples import DEFAULTS, NOW

CASES = sorted(path for path in (Path(__file__).parent / "golden").iterdir() if path.is_dir())


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def render(group: dict[str, Any]) -> str:
    objects = plan(group, Observed(), NOW, DEFAULTS).apply
    assert objects, "the group is invalid"
    return yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, width=120)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_objects_of(case: Path, update_golden: bool) -> None:
    rendered = render(yaml.safe_load((case / "group.yaml").read_text()))
    expected = case / "objects.yaml"
    if update_golden:
        expected.write_text(rendered)
    assert rendered == expected.read_text()
