"""The termination message: whole JSON within the kubelet's limit, whatever the checks have to say."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pdserving.preflight.result import MESSAGE_LIMIT, Check, Result, Status, format_table, to_json, to_message

texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=2000)
checks = st.builds(Check, st.sampled_from(["hca", "gid", "memlock"]), st.sampled_from(Status), texts, texts, texts)
results = st.builds(Result, st.lists(checks, max_size=15).map(tuple))


@given(results)
def test_a_message_fits_and_keeps_every_verdict(result):
    message = to_message(result)
    assert len(message.encode()) <= MESSAGE_LIMIT
    document = json.loads(message)
    assert document["passed"] == result.passed
    told = [(check["name"], check["status"]) for check in document["checks"] if check["status"] != "skip"]
    assert told == [(check.name, check.status) for check in result.checks if check.status is not Status.SKIP]


def test_a_short_message_is_the_whole_answer():
    result = Result((Check("gid", Status.FAIL, "mlx5_0 empty GID table", "a RoCE v2 GID", "give it an address"),))
    assert to_message(result) == to_json(result)
    assert json.loads(to_message(result)) == {
        "version": 1,
        "passed": False,
        "checks": [
            {
                "name": "gid",
                "status": "fail",
                "value": "mlx5_0 empty GID table",
                "expected": "a RoCE v2 GID",
                "remedy": "give it an address",
            }
        ],
    }


def test_a_table_has_a_line_for_each_check_and_the_remedy_below():
    table = format_table(Result((Check("hca", Status.PASS, "mlx5_0"), Check("gid", Status.FAIL, "x", "y", "do z"))))
    assert table.splitlines() == [
        "hca  PASS  mlx5_0",
        "gid  FAIL  x  (expected: y)",
        "           → do z",
        "preflight FAILED",
    ]
