"""The cache under events in any order: never backwards, never a phantom."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pdserving.api.labels import GROUP_LABEL
from pdserving.controller.cache import Cache, Key
from pdserving.kube.kinds import GROUPS, PODS, Kind, find_kind

SETS = find_kind("apps/v1", "StatefulSet")
KEY = Key("serving", "llm")


def make(kind: Kind, name: str, version: int, uid: str = "", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "namespace": "serving",
            "name": name,
            "uid": uid or f"uid-of-{name}",
            "resourceVersion": str(version),
            "labels": {GROUP_LABEL: "llm"},
            "ownerReferences": [{"uid": "group-uid", "controller": True}],
            **metadata,
        },
    }


def versions(cache: Cache) -> list[tuple[str, str]]:
    return [(m["metadata"]["name"], m["metadata"]["resourceVersion"]) for m in cache.owned(KEY, "group-uid")]


def test_member_belongs_to_the_group_of_its_label() -> None:
    cache = Cache()
    assert cache.put(SETS, make(SETS, "a", 1)) == {KEY}
    assert cache.put(PODS, make(PODS, "a-0", 2)) == {KEY}
    assert versions(cache) == [("a", "1")]
    assert [pod["metadata"]["name"] for pod in cache.pods(KEY)] == ["a-0"]


def test_group_is_its_own_key() -> None:
    cache = Cache()
    assert cache.put(GROUPS, make(GROUPS, "llm", 1, labels={})) == {KEY}
    assert cache.keys() == [KEY]
    assert cache.group(KEY) is not None


def test_versions_are_numbers_and_never_go_back() -> None:
    cache = Cache()
    cache.put(SETS, make(SETS, "a", 10))
    assert cache.put(SETS, make(SETS, "a", 9)) == set()
    assert cache.put(SETS, make(SETS, "a", 10)) == set(), "the echo of our own write is no news"
    assert versions(cache) == [("a", "10")]


def test_answer_that_comes_after_the_end_is_no_phantom() -> None:
    cache = Cache()
    cache.put(SETS, make(SETS, "a", 1))
    cache.remove(SETS, make(SETS, "a", 3))
    assert cache.put(SETS, make(SETS, "a", 2)) == set()
    assert versions(cache) == []


def test_end_of_an_earlier_object_does_not_remove_the_one_of_today() -> None:
    cache = Cache()
    cache.put(SETS, make(SETS, "a", 5, uid="new"))
    assert cache.remove(SETS, make(SETS, "a", 4, uid="old")) == set()
    assert versions(cache) == [("a", "5")]


def test_object_that_another_group_claims_changes_hands() -> None:
    cache = Cache()
    cache.put(SETS, make(SETS, "a", 1))
    assert cache.put(SETS, make(SETS, "a", 2, labels={GROUP_LABEL: "other"})) == {KEY, Key("serving", "other")}
    assert versions(cache) == []


def test_what_an_earlier_group_left_is_not_ours() -> None:
    cache = Cache()
    cache.put(SETS, make(SETS, "a", 1, ownerReferences=[{"uid": "earlier", "controller": True}]))
    assert versions(cache) == []


def test_managed_fields_are_not_kept() -> None:
    cache = Cache()
    cache.put(SETS, make(SETS, "a", 1, managedFields=[{"manager": "x"}]))
    assert "managedFields" not in cache.owned(KEY, "group-uid")[0]["metadata"]


class TestListing:
    def test_phantom_is_dropped_and_its_group_told(self) -> None:
        cache = Cache()
        cache.put(SETS, make(SETS, "vanished", 1))
        cache.put(SETS, make(SETS, "stays", 2))
        assert cache.replace(SETS, None, "9", [make(SETS, "stays", 2)]) == {KEY}
        assert versions(cache) == [("stays", "2")]

    def test_object_newer_than_the_listing_stays(self) -> None:
        cache = Cache()
        cache.put(SETS, make(SETS, "just-made", 12))
        assert cache.replace(SETS, None, "11", []) == set()
        assert versions(cache) == [("just-made", "12")]

    def test_object_that_ended_during_the_listing_does_not_return(self) -> None:
        cache = Cache()
        cache.put(SETS, make(SETS, "a", 1))
        cache.remove(SETS, make(SETS, "a", 8))
        assert cache.replace(SETS, None, "7", [make(SETS, "a", 1)]) == set()
        assert versions(cache) == []

    def test_listing_of_one_namespace_says_nothing_of_others(self) -> None:
        cache = Cache()
        cache.put(SETS, make(SETS, "a", 1))
        assert cache.replace(SETS, "elsewhere", "9", []) == set()
        assert versions(cache) == [("a", "1")]

    def test_right_cache_is_left_alone(self) -> None:
        cache = Cache()
        cache.put(SETS, make(SETS, "a", 1))
        assert cache.replace(SETS, None, "9", [make(SETS, "a", 1)]) == set()


@given(st.data())
def test_any_order_of_arrival_ends_in_the_last_state(data: st.DataObject) -> None:
    """A history of one name: versions of several uids one after another, each ended but perhaps the last."""
    lives = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    last_lives_on = data.draw(st.booleans())
    history: list[tuple[str, dict[str, Any]]] = []
    for number, updates in enumerate(lives):
        history += [("MODIFIED", make(SETS, "a", len(history) + i + 1, uid=f"life-{number}")) for i in range(updates)]
        if number < len(lives) - 1 or not last_lives_on:
            history.append(("DELETED", make(SETS, "a", len(history) + 1, uid=f"life-{number}")))
    cache = Cache()
    for happened, manifest in data.draw(st.permutations(history)):
        (cache.remove if happened == "DELETED" else cache.put)(SETS, manifest)
    assert versions(cache) == ([("a", str(len(history)))] if last_lives_on else [])
