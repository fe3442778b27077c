"""What the proxy reads of an engine's answer head."""

import pytest

from pdserving.proxy.http.framing import FramingError, Head


def read(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK") -> Head:
    return Head(b"\r\n".join((status, *lines, b"")))


def test_a_sized_answer() -> None:
    head = read(b"date: now", b"content-length: 17", b"content-type: application/json")
    assert (head.status, head.length, head.chunked, head.keep_alive) == (200, 17, False, True)
    assert head.content_type == b"application/json"


def test_names_in_any_case_and_space_around_values() -> None:
    head = read(b"Content-Length:\t 17 \t", b"CONTENT-TYPE:text/event-stream; charset=utf-8")
    assert (head.length, head.content_type) == (17, b"text/event-stream; charset=utf-8")


def test_chunked_wins_over_a_length() -> None:
    head = read(b"content-length: 17", b"Transfer-Encoding: Chunked")
    assert (head.chunked, head.length) == (True, None)


@pytest.mark.parametrize("line", [b"x-content-length: 5", b"x: content-length: 5", b"content-length-hint: 5"])
def test_a_name_is_the_whole_name(line: bytes) -> None:
    assert read(line).length is None


def test_close_and_old_versions_end_the_connection() -> None:
    assert not read(b"Connection: Close").keep_alive
    assert not read(status=b"HTTP/1.0 200 OK").keep_alive


@pytest.mark.parametrize("line", [b"content-length: many", b"content-length: -1", b"content-length: 1 2"])
def test_a_length_that_is_no_number_is_refused(line: bytes) -> None:
    with pytest.raises(FramingError):
        read(line)


@pytest.mark.parametrize("status", [b"HTTP/2 200", b"HTTP/1.1 OK", b"garbage"])
def test_a_wrong_status_line_is_refused(status: bytes) -> None:
    with pytest.raises(FramingError):
        read(status=status)
