"""Two Mooncake transfer engines and one write between them, measured and compared byte for byte.

    python -m e2e.softverbs.transfer_check               both ends on this machine, over softverbs; exit 0 if equal
    transfer_check.py serve HOST BYTES [DEVICES]         one JSON line, then a digest for each line of input
    transfer_check.py write HOST PEER ADDRESS BYTES PIECE [DEVICES]

`serve` and `write` need Mooncake's wheel and run where you start them: in two pods, in two
network namespaces. `write` repeats $REPEAT times, $PAUSE seconds apart, so that faults can be made meanwhile.
"""

import ctypes
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WHEEL = "mooncake-transfer-engine-non-cuda==0.3.13.post1"
BYTES, PIECE = 64 << 20, 1 << 20


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def start(host: str, size: int, devices: str) -> tuple[Any, Any, int]:
    from mooncake.engine import TransferEngine  # noqa: PLC0415 - not where both ends are only started

    engine = TransferEngine()
    if code := engine.initialize(host, "P2PHANDSHAKE", "rdma", devices):
        sys.exit(f"initialize: {code}")
    buffer = ctypes.create_string_buffer(size)
    address = ctypes.addressof(buffer)
    if code := engine.batch_register_memory([address], [size]):
        sys.exit(f"batch_register_memory: {code}")
    return engine, buffer, address


def serve(host: str, size: str, devices: str = "") -> None:
    engine, buffer, address = start(host, int(size), devices)
    say(peer=f"{host}:{engine.get_rpc_port()}", address=address)
    for _ in sys.stdin:
        say(sha=hashlib.sha256(buffer).hexdigest())


def write(host: str, peer: str, remote: str, size: str, piece: str, devices: str = "") -> None:
    total, step = int(size), int(piece)
    engine, buffer, address = start(host, total, devices)
    buffer[:] = os.urandom(total)
    offsets = range(0, total, step)
    sources, targets = [address + o for o in offsets], [int(remote) + o for o in offsets]
    lengths = [min(step, total - o) for o in offsets]
    for _ in range(int(os.environ.get("REPEAT", "1"))):
        began = time.monotonic()
        code = engine.batch_transfer_sync_write(peer, sources, targets, lengths)
        seconds = time.monotonic() - began
        say(code=code, seconds=round(seconds, 3), mb_per_s=round(total / 1e6 / seconds), pieces=len(lengths))
        time.sleep(float(os.environ.get("PAUSE", "0")))
    say(sha=hashlib.sha256(buffer).hexdigest())


def both() -> None:
    from e2e.lib.wheels import python_with  # noqa: PLC0415 - the ends run where this package is not
    from e2e.softverbs import build  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "devices.conf"
        config.write_text("[mlx5_0]\naddr = 127.0.0.1\nmemlock = ignore\n")
        environ = {
            **os.environ,
            "LD_PRELOAD": str(build.library()),
            "SOFTVERBS_CONFIG": str(config),
            "SOFTVERBS_TREE": f"{scratch}/tree",
            "MC_FORCE_HCA": "1",
        }
        compare([str(python_with(WHEEL)), str(Path(__file__).resolve())], environ)


def compare(command: list[str], environ: dict[str, str]) -> None:
    """Fail unless the receiving end holds exactly the bytes that the sending end has."""
    receiving = [*command, "serve", "127.0.0.1", str(BYTES)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(receiving, env=environ, **pipes) as receiver:
        line = receiver.stdout.readline()
        if not line:
            raise SystemExit(f"the receiving end did not start; try {' '.join(receiving)}")
        hello = json.loads(line)
        sending = [*command, "write", "127.0.0.1", hello["peer"], str(hello["address"]), str(BYTES), str(PIECE)]
        answer = subprocess.run(sending, env=environ, capture_output=True, text=True, check=False)
        told, _ = receiver.communicate("digest\n")
    lines = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
    if len(lines) != 2 or "installTransport, type=rdma" not in answer.stderr or json.loads(told) != lines[1]:
        raise SystemExit(f"the ends differ: {told} {answer.stdout} {answer.stderr[-2000:]}")
    say(transport="rdma", equal=True, **lines[0])


if __name__ == "__main__":
    {"serve": serve, "write": write}.get(sys.argv[1] if sys.argv[1:] else "", both)(*sys.argv[2:])
