"""The cause of a crash is found in logs that real engines (vLLM 0.32) left, and behind errors that only point."""

from pathlib import Path

import pytest

from pdserving.core.log_cause import MAX_LENGTH, find_cause

LOGS = Path(__file__).parent / "logs"


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("unknown-flag", "vllm: error: unrecognized arguments: --no-such-flag"),
        ("bad-value", "vllm serve: error: argument --max-num-seqs: invalid int value: 'x'"),
        (
            "no-such-model",
            "huggingface_hub.errors.HFValidationError: Repo id must use alphanumeric chars, '-', '_' or '.'.",
        ),
        (
            "too-long",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig: Value error, ",
        ),
    ],
)
def test_causes_in_real_logs(name: str, cause: str) -> None:
    found = find_cause((LOGS / f"{name}.log").read_text())
    assert found is not None
    assert found.startswith(cause)


def test_the_root_comes_before_what_points_back_to_it() -> None:
    log = """
(Worker pid=41) ERROR 12-01 02:30:09 [multiproc_executor.py:770] WorkerProc failed to start.
(Worker pid=41) ERROR 12-01 02:30:09 [multiproc_executor.py:770] torch.OutOfMemoryError: CUDA out of memory.
(EngineCore pid=27) ERROR 12-01 02:30:10 [core.py:900] Exception: WorkerProc initialization failed due to an exception
(EngineCore pid=27) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
    assert find_cause(log) == "torch.OutOfMemoryError: CUDA out of memory."


def test_colours_do_not_hide_the_cause() -> None:
    assert find_cause("\x1b[0;36m(EngineCore pid=27)\x1b[0;0m ValueError: x") == "ValueError: x"


@pytest.mark.parametrize(
    "log", ["", "all is well", "RuntimeError: See root cause above.", "an Error: in prose", "SystemExit: 1"]
)
def test_no_cause(log: str) -> None:
    assert find_cause(log) is None


def test_a_long_cause_is_cut() -> None:
    assert len(find_cause("ValueError: " + "x" * 2000) or "") == MAX_LENGTH
