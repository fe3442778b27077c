"""A flag of ours is found in every form that vLLM takes, and one that only looks like it is left alone."""

import pytest

from pdserving.api.owned import find_owned_flag


@pytest.mark.parametrize(
    ("argument", "flag"),
    [
        ("--port", "--port"),
        ("--port=80", "--port"),
        ("--port=80\n", "--port"),
        ("--tensor_parallel_size=2", "--tensor-parallel-size"),
        ("-tp", "--tensor-parallel-size"),
        ("--kv-transfer-config.kv_role=kv_both", "--kv-transfer-config"),
        ("--kv_transfer_config", "--kv-transfer-config"),
        ("-dpr", "--data-parallel-*"),
        ("--data-parallel-hybrid-lb", "--data-parallel-*"),
        ("--headless", "--nnodes"),
    ],
)
def test_owned(argument: str, flag: str) -> None:
    found = find_owned_flag(("--enforce-eager", argument))
    assert found is not None
    assert found.flags == flag


@pytest.mark.parametrize("argument", ["--portal", "port", "--max-model-len=--port", "--kv-cache-dtype=fp8", "--modelx"])
def test_free(argument: str) -> None:
    assert find_owned_flag((argument,)) is None
