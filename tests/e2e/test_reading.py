"""What the end-to-end suites conclude from texts: counters, streams, the audit log. A slip here hides a failure."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.lib import asking, audit
from e2e.lib.engine import parse_samples, transferred

EXPOSITION = """\
# HELP vllm:prompt_tokens_by_source_total Number of prompt tokens by source.
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"} 3.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="external_kv_transfer"} 48.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny"} 4.8e+01
process_open_fds 12
"""


def test_samples_are_found_by_series_and_summed_by_name() -> None:
    samples = parse_samples(EXPOSITION)
    assert samples["vllm:prompt_tokens_by_source_total"] == 51
    assert samples["vllm:external_prefix_cache_hits_total"] == 48
    assert samples["process_open_fds"] == 12


def test_only_fetched_tokens_count_as_transferred() -> None:
    assert transferred(parse_samples(EXPOSITION)) == 48


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('data: {"choices":[{"text":"a"}]}\n\n', "without an end"),
        ('data: {"error":{"code":500}}\n\ndata: [DONE]\n\n', "error inside a stream"),
    ],
)
def test_a_broken_stream_is_no_answer(text: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        asking.stream_choices(text)


def test_prompts_of_other_seeds_and_lengths_share_no_block() -> None:
    blocks = {tuple(asking.prompt(length, seed)[:32]) for length in (32, 33, 64) for seed in range(8)}
    assert len(blocks) == 24


def _line(stage: str, verb: str, resource: str, user: str = "operator") -> str:
    event: dict[str, Any] = {
        "stage": stage,
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource, "namespace": "n", "name": "x"},
        "requestReceivedTimestamp": "2026-12-01T00:00:00.000000Z",
        "responseStatus": {"code": 200},
    }
    return json.dumps(event)


def test_a_request_counts_once_and_leases_are_no_writes(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    lines = [
        _line("ResponseStarted", "watch", "pods"),
        _line("ResponseComplete", "watch", "pods"),
        _line("ResponseComplete", "update", "leases"),
        _line("ResponseComplete", "patch", "services"),
        _line("ResponseComplete", "patch", "services", user="somebody"),
    ]
    log.write_text("\n".join(lines))
    seen = list(audit.requests(log, "operator"))
    assert [request.resource for request in seen] == ["pods", "leases", "services"]
    assert [request.resource for request in audit.writes(seen)] == ["services"]


@pytest.mark.parametrize(
    ("authorized", "message", "allowed_later", "counts"),
    [
        (False, 'cannot get resource "pods"', False, True),
        (False, 'cannot get resource "pods"', True, False),
        (True, "violates PodSecurity", True, True),
        (True, "unable to create new content in namespace n because it is being terminated", True, False),
    ],
    ids=["no-right", "roles-not-read-yet", "admission", "namespace-ends"],
)
def test_only_lasting_refusals_count(*, authorized: bool, message: str, allowed_later: bool, counts: bool) -> None:
    def request(code: int, *, authorized: bool, message: str = "") -> audit.Request:
        return audit.Request(datetime.now(UTC), "get", "", "pods", "n", "x", code, authorized, message)

    refused = request(403, authorized=authorized, message=message)
    seen = [refused, request(200, authorized=True)] if allowed_later else [refused]
    assert audit.forbidden(seen) == ([refused] if counts else [])
