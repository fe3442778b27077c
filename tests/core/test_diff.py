"""Our fields decide whether an object is written again; what others added does not."""

from typing import Any

import pytest

from pdserving.core.diff import differs, is_subset, stamp
from pdserving.core.quantity import parse_quantity, same_quantity


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": {}}, {}),
        ({"hostIPC": False}, {}),
        ({"a": []}, {}),
        ({"limits": {"cpu": "1000m", "memory": "1024Mi"}}, {"limits": {"cpu": "1", "memory": "1Gi"}}),
        ({"limits": {"cpu": 1}}, {"limits": {"cpu": "1"}}),
        ({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B"}, {"name": "A", "value": "1"}]}),
        ({"ports": [{"port": 80}]}, {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}]}),
    ],
)
def test_same(desired: dict[str, Any], live: dict[str, Any]) -> None:
    assert is_subset(desired, live)


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"selector": {"app": "a"}}, {"selector": {"app": "a", "more": "x"}}),
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 2}),
        ({"a": {"b": 1}}, {"a": "b"}),
        ({"args": ["x"]}, {"args": ["x", "y"]}),
        ({"args": ["1000m"]}, {"args": ["1"]}),
        ({"args": ["x"]}, {"args": "x"}),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "2"}]}),
        ({"env": [{"name": "A"}]}, {"env": []}),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}),
        ({"limits": {"cpu": "x"}}, {"limits": {"cpu": "y"}}),
        ({"replicas": 0}, {"replicas": 1}),
        ({"ports": [{"port": 80}]}, {"ports": [{"port": 80}, {"port": 81}]}),
    ],
)
def test_different(desired: dict[str, Any], live: dict[str, Any]) -> None:
    assert not is_subset(desired, live)


def test_a_missing_object_differs() -> None:
    assert differs({"a": 1}, None)


def test_a_field_that_we_stop_setting_changes_the_stamp() -> None:
    """It would stay in the live object unnoticed: what we want is still a part of what is there."""
    before = stamp({"metadata": {"name": "x"}, "spec": {"a": 1, "b": 2}})
    after = stamp({"metadata": {"name": "x"}, "spec": {"a": 1}})
    assert differs(after, before)
    assert not differs(after, after)


def test_a_stamp_keeps_other_annotations() -> None:
    stamped = stamp({"metadata": {"annotations": {"a": "b"}}})
    assert stamped["metadata"]["annotations"]["a"] == "b"
    assert len(stamped["metadata"]["annotations"]) == 2


@pytest.mark.parametrize(
    ("left", "right"),
    [("1", 1), ("1000m", "1"), ("1Gi", "1024Mi"), ("1e3", "1k"), ("0.5", "500m"), ("1.5Gi", "1536Mi")],
)
def test_equal_quantities(left: Any, right: Any) -> None:
    assert same_quantity(left, right)


@pytest.mark.parametrize("value", ["", "x", "1X", "1..2", True, None, "1e999"])
def test_what_is_no_quantity(value: Any) -> None:
    assert parse_quantity(value) is None
