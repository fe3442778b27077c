"""What makes a lane, and what prefill and decode may not disagree on."""

from typing import Any

import pytest

from pdserving.api.v1alpha1 import PDServingGroupSpec
from pdserving.core.kv import compute_lane, find_disagreement, parse_flags
from tests.core.samples import make_group

IMAGES = ("vllm:1", "vllm:1")


def make_spec(**spec: Any) -> PDServingGroupSpec:
    return PDServingGroupSpec.model_validate(make_group(**spec)["spec"])


def lane(images: tuple[str, str] = IMAGES, name: str = "llm", **spec: Any) -> str:
    return compute_lane(make_spec(**spec), name, images)


def test_a_lane_is_eight_digits_and_stable() -> None:
    assert lane() == lane()
    assert len(lane()) == 8
    assert int(lane(), 16) >= 0


@pytest.mark.parametrize(
    "change",
    [
        {"engine": {"args": ["--dtype=float16"]}},
        {"engine": {"args": ["--block_size", "32"]}},
        {"engine": {"args": ["--speculative-config.method=mtp"]}},
        {"engine": {"env": [{"name": "VLLM_KV_CACHE_LAYOUT", "value": "NHD"}]}},
        {"model": {"source": {"inImage": {"path": "/other"}}}},
        {"transfer": {"protocol": "rdma", "rdma": {"devicePlugin": {"resource": "rdma/a"}}}},
        {"prefill": {"gpus": 2, "parallelism": {"tensor": 2}}},
        {"images": ("vllm:2", "vllm:1")},
        {"name": "other"},
    ],
)
def test_another_lane(change: dict[str, Any]) -> None:
    assert lane(**change) != lane()


@pytest.mark.parametrize(
    "change",
    [
        {"engine": {"args": ["--max-num-seqs=3"], "port": 9000}},
        {"engine": {"env": [{"name": "A", "value": "1"}]}},
        {"prefill": {"replicas": 7, "resources": {"limits": {"memory": "1Gi"}}}},
        {"transfer": {"protocol": "tcp", "abortTimeoutSeconds": 30}},
        {"proxy": {"replicas": 5}},
        {"suspend": True},
    ],
)
def test_the_same_lane(change: dict[str, Any]) -> None:
    assert lane(**change) == lane()


def test_a_token_is_no_part_of_the_agreement() -> None:
    source = {"repo": "a/b"}
    with_token = {**source, "tokenSecret": {"name": "hub"}}
    assert lane(model={"source": {"huggingFace": source}}) == lane(model={"source": {"huggingFace": with_token}})


def test_both_roles_must_agree() -> None:
    spec = make_spec(prefill={"args": ["--block-size=16"]}, decode={"args": ["--block_size", "32"]})
    assert find_disagreement(spec) == (
        "spec.prefill and spec.decode: --block-size is '16' for prefill and '32' for decode, "
        "which can't share KV cache: set it once in spec.engine"
    )
    spec = make_spec(decode={"env": [{"name": "VLLM_KV_CACHE_LAYOUT", "value": "NHD"}]})
    assert "VLLM_KV_CACHE_LAYOUT is not set for prefill and 'NHD' for decode" in str(find_disagreement(spec))


def test_what_is_set_once_or_alike_agrees() -> None:
    assert find_disagreement(make_spec(engine={"args": ["--block-size=32"]})) is None
    alike = {"args": ["--block-size=32"]}
    assert find_disagreement(make_spec(prefill=alike, decode=alike)) is None


def test_parsing_flags() -> None:
    arguments = ("model", "--a=1", "--b", "2", "3", "--c_d", "-tp", "4", "--a", "5")
    assert parse_flags(arguments) == {"a": "5", "b": "2 3", "c-d": "4"}
