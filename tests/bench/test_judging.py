"""The mock engines must tell a right P/D request from every wrong one: otherwise the benchmark would praise a proxy
that is fast because it does less."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest

from bench.proxy.measure import check_legs
from bench.proxy.processes import Cores, InvalidRunError, Mock, free_ports, running_mock
from bench.proxy.targets import Ports

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="the mock engines are C: apt-get install gcc")

NOTHING = {"transfer": 0, "room": 0, "plain": 0, "bad": 0}


class Engines:
    def __init__(self, ports: Ports, mock: Mock) -> None:
        self.ports, self.mock = ports, mock
        self.engine_id = self.get(self.ports.bootstrap, "/query")["0"]["engine_id"]

    def get(self, port: int, path: str) -> Any:
        return json.loads(self._exchange(port, "GET", path))

    def ask(self, port: int, body: dict[str, Any]) -> bytes:
        return self._exchange(port, "POST", "/v1/chat/completions", json.dumps(body))

    def _exchange(self, port: int, method: str, path: str, body: str | None = None) -> bytes:
        with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request(method, path, body)
            return connection.getresponse().read()

    def prefill(self, transfer_id: str = "x", *, max_tokens: int = 1, **wrong: Any) -> bytes:
        params = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer_id} | wrong
        return self.ask(self.ports.prefill, {"max_tokens": max_tokens, "kv_transfer_params": params})

    def decode(self, transfer_id: str = "x", *, stream: bool = False, **wrong: Any) -> bytes:
        params = {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "transfer_id": transfer_id,
            "remote_engine_id": self.engine_id,
            "remote_bootstrap_addr": f"http://127.0.0.1:{self.ports.bootstrap}",
        } | wrong
        return self.ask(self.ports.decode, {"max_tokens": 3, "stream": stream, "kv_transfer_params": params})


@contextmanager
def running_engines() -> Iterator[Engines]:
    ports = free_ports()
    with running_mock(ports, itl_us=1000, cores=Cores(0, 0)) as mock:
        yield Engines(ports, mock)


def test_one_right_request_is_counted_as_one() -> None:
    with running_engines() as engines:
        assert b'"finish_reason":"length"' in engines.prefill()
        engines.decode()
    check_legs("transfer", engines.mock.counters, 1)


def test_a_stream_has_every_token_a_finish_reason_and_an_end() -> None:
    with running_engines() as engines:
        events = engines.decode(stream=True).split(b"\n\n")
    contents = [json.loads(event[6:])["choices"][0] for event in events[:-2]]
    assert [c["finish_reason"] for c in contents] == [None, None, None, "length"]
    assert events[-2:] == [b"data: [DONE]", b""]


@pytest.mark.parametrize("wrong", [{"max_tokens": 16}, {"do_remote_decode": False}, {"transfer_id": None}])
def test_a_wrong_prefill_leg_is_bad(wrong: dict[str, Any]) -> None:
    with running_engines() as engines:
        engines.prefill(**wrong)
    assert engines.mock.counters["prefill"] == NOTHING | {"bad": 1}


@pytest.mark.parametrize(
    "wrong", [{"remote_engine_id": "old"}, {"remote_bootstrap_addr": "http://elsewhere"}, {"do_remote_prefill": False}]
)
def test_a_wrong_decode_leg_is_bad(wrong: dict[str, Any]) -> None:
    with running_engines() as engines:
        engines.decode(**wrong)
    assert engines.mock.counters["decode"] == NOTHING | {"bad": 1}


def test_two_different_transfer_ids_make_the_run_invalid() -> None:
    with running_engines() as engines:
        engines.prefill("one")
        engines.decode("another")
    with pytest.raises(InvalidRunError, match="different or repeated"):
        check_legs("transfer", engines.mock.counters, 1)


def test_a_repeated_transfer_id_makes_the_run_invalid() -> None:
    with running_engines() as engines:
        for _ in range(2):
            engines.prefill("same")
            engines.decode("same")
    with pytest.raises(InvalidRunError, match="different or repeated"):
        check_legs("transfer", engines.mock.counters, 2)


def test_a_request_that_skipped_prefill_makes_the_run_invalid() -> None:
    with running_engines() as engines:
        engines.ask(engines.ports.decode, {"max_tokens": 3})
    with pytest.raises(InvalidRunError, match="these legs"):
        check_legs("transfer", engines.mock.counters, 1)
