"""A decode engine that computes what it should have fetched is found out, and nothing else is."""

from hypothesis import given
from hypothesis import strategies as st

from pdserving.proxy.readings import Reading, parse_reading
from pdserving.proxy.transfers import MOVING, NOT_MOVING, UNKNOWN, Flow

EXPOSITION = b"""\
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 12.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_cache_hit"} 5.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"} 100.0
vllm:prompt_tokens_by_source_total{engine="1",model_name="m",source="external_kv_transfer"} 1e3
vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 4000.0
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 2.0
vllm:mooncake_xfer_time_seconds_bucket{engine="0",le="0.005",model_name="m"} 6.0
vllm:mooncake_xfer_time_seconds_count{engine="0",model_name="m"} 7.0
vllm:mooncake_xfer_time_seconds_sum{engine="0",model_name="m"} 0.25
vllm:mooncake_bytes_transferred_sum{engine="0",model_name="m"} 2.5e+08
vllm:mooncake_bytes_transferred_sum{engine="1",model_name="m"} 1e+08
"""


def started() -> Flow:
    flow = Flow()
    flow.read(Reading(0, 0))
    return flow


def test_counters_are_summed_over_ranks_by_source() -> None:
    assert parse_reading(EXPOSITION) == Reading(
        fetched=1100, computed=12, cached=5, running=3, waiting=2, sent=7, sent_bytes=3.5e8, sent_seconds=0.25
    )


def test_an_engine_that_does_not_count_by_source_is_not_judged() -> None:
    assert parse_reading(b"vllm:prompt_tokens_total 5.0\n") is None


def test_fetched_tokens_are_moving() -> None:
    flow = started()
    flow.asked += 96
    flow.read(Reading(96, 0))
    assert flow.state == MOVING


def test_computing_what_should_have_been_fetched_is_not_moving() -> None:
    flow = started()
    flow.asked += 96
    flow.read(Reading(0, 96))
    assert (flow.state, flow.asked, flow.computed) == (NOT_MOVING, 96, 96)


def test_it_is_moving_again_with_the_first_fetch() -> None:
    flow = started()
    flow.asked += 96
    flow.read(Reading(0, 96))
    flow.read(Reading(1, 96))
    assert (flow.state, flow.asked) == (MOVING, 0)


def test_prompts_that_the_engine_had_in_its_own_cache_are_no_alarm() -> None:
    flow = started()
    flow.asked += 1000
    flow.read(Reading(0, 4))
    assert flow.state == UNKNOWN


def test_prompts_of_requests_that_were_meant_to_be_local_are_no_alarm() -> None:
    flow = started()
    flow.read(Reading(0, 5000))
    assert flow.state == UNKNOWN


def test_a_restarted_engine_begins_anew() -> None:
    flow = started()
    flow.read(Reading(500, 500))
    flow.asked += 96
    flow.read(Reading(0, 0))
    assert (flow.state, flow.asked) == (MOVING, 0)


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=20))
def test_an_engine_that_fetches_everything_is_never_accused(requests: list[tuple[int, bool]]) -> None:
    """Whatever the order in which the proxy hears of an answer and reads the counter."""
    flow, fetched = started(), 0
    for tokens, answered_first in requests:
        fetched += tokens
        if answered_first:
            flow.asked += tokens
            flow.read(Reading(fetched, 0))
        else:
            flow.read(Reading(fetched, 0))
            flow.asked += tokens
    assert flow.state != NOT_MOVING
