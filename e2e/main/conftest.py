"""The order of the main suite: what only asks comes first, what breaks things later, what removes them last."""

from pathlib import Path

import pytest

ORDER = (
    "test_tokens",
    "test_openai_client",
    "test_parameters",
    "test_access",
    "test_bad_input",
    "test_settled",
    "test_ownership",
    "test_scaling",
    "test_prefill_killed",
    "test_verified",
    "test_outages",
    "test_deletion",
    "test_rights",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    mine = [item for item in items if item.path.parent == here]
    mine.sort(key=lambda item: ORDER.index(item.path.stem))
    others = [item for item in items if item.path.parent != here]
    items[:] = others + mine
