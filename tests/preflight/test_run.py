"""Exit codes, the termination message, bad requests, and the promise to need nothing but Python."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pdserving.preflight.observe import Attempts
from pdserving.preflight.run import EXIT_FAILED, EXIT_MISCONFIGURED, EXIT_PASSED, run

SOURCE_ROOT = Path(__file__).parents[2] / "operator"
ENFORCE = {"MC_FORCE_HCA": "1", "VLLM_HOST_IP": "127.0.0.1"}
WARN = {**ENFORCE, "PDSERVING_PREFLIGHT_MODE": "warn"}


def test_enforce_stops_the_pod_and_leaves_the_reason(machine, fakes, tmp_path):
    message = tmp_path / "termination-log"
    assert run(ENFORCE, root=machine("rdma-cm-only"), termination_log=message, attempts=fakes.attempts()) == EXIT_FAILED
    failed = [check["name"] for check in json.loads(message.read_text())["checks"] if check["status"] == "fail"]
    assert failed == ["uverbs"]


def test_warn_lets_the_pod_start_and_still_leaves_the_reason(machine, fakes, tmp_path):
    message = tmp_path / "termination-log"
    assert run(WARN, root=machine("rdma-cm-only"), termination_log=message, attempts=fakes.attempts()) == EXIT_PASSED
    assert json.loads(message.read_text())["passed"] is False


def test_a_healthy_pod_passes(machine, fakes, capsys):
    assert run(ENFORCE, root=machine("roce-v2"), attempts=fakes.attempts(), json=True) == EXIT_PASSED
    assert json.loads(capsys.readouterr().out)["passed"] is True


def test_a_message_that_cannot_be_written_does_not_stop_the_pod(machine, fakes, tmp_path, capsys):
    nowhere = tmp_path / "absent" / "termination-log"
    assert run(ENFORCE, root=machine("roce-v2"), termination_log=nowhere, attempts=fakes.attempts()) == EXIT_PASSED
    assert "No such file or directory" in capsys.readouterr().err


def test_a_defect_of_the_check_does_not_stop_the_pod(machine, capsys):
    def defect(_size: int) -> str:
        raise ZeroDivisionError

    assert run(ENFORCE, root=machine("roce-v2"), attempts=Attempts(lock_memory=defect)) == EXIT_PASSED
    assert "could not finish: ZeroDivisionError()" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("PDSERVING_PREFLIGHT_MODE", "strict", "use one of enforce, warn"),
        ("PDSERVING_PREFLIGHT_PROTOCOL", "ib", "use one of rdma, tcp"),
        ("PDSERVING_PREFLIGHT_DEVICES", "two", "use a whole number"),
    ],
)
def test_a_request_that_means_nothing_is_refused_by_name(name, value, hint, capsys):
    assert run({name: value}) == EXIT_MISCONFIGURED
    assert f"{name}={value}: {hint}" in capsys.readouterr().err


def test_it_runs_on_this_machine_with_nothing_but_the_standard_library():
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCE_ROOT)!r}); from pdserving.preflight.run import run; run({{}})"
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program], capture_output=True, text=True, check=False
    )
    assert answer.stderr == ""
    assert "memlock" in answer.stdout
