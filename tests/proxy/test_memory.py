"""Large buffers must be used again: each fresh megabyte costs hundreds of page faults."""

import ctypes
import subprocess
import sys

import pytest

FAULTS = """
import resource
from pdserving.proxy.memory import keep_buffers
{setup}
size = 1_000_000
def work():  # eight requests at once, fifty times
    for _ in range(50):
        [b"x" * size for _ in range(8)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def count_faults(setup: str) -> int:
    program = subprocess.run(
        [sys.executable, "-c", FAULTS.format(setup=setup)],
        check=True, capture_output=True, text=True, env={"PYTHONPATH": "operator"},
    )  # fmt: skip
    return int(program.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc only: musl has no mallopt")
def test_large_buffers_are_used_again() -> None:
    assert count_faults("") > 5000
    assert count_faults("assert keep_buffers()") < 500
