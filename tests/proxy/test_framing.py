"""What the proxy reads of an engine's answer: its head, and where its chunks end."""

import pytest

from pdserving.proxy.http.framing import ChunkedBody, FramingError, Head


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


TOKENS = [b"5\r\nhello\r\n", b"1e\r\n" + b"x" * 30 + b"\r\n", b"5\r\nworld\r\n", b"800\r\n" + b"y" * 2048 + b"\r\n"]
END = b"0\r\n\r\n"


def feed_all(pieces: list[bytes]) -> tuple[bytes, bool]:
    """What of the pieces was whole chunks when it came, and whether the message ended."""
    body, rest, whole = ChunkedBody(), b"", b""
    for piece in pieces:
        assert body.feed(piece) == len(piece)
        data = rest + piece
        boundary = body.boundary + len(rest) if body.boundary else 0
        whole, rest = whole + data[:boundary], data[boundary:]
    return whole, body.done


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 35, 4096])
def test_chunks_are_found_however_they_are_cut(size: int) -> None:
    stream = b"".join(TOKENS) + END
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert feed_all(pieces) == (stream, True)


def test_a_token_a_read_is_a_whole_chunk_a_read() -> None:
    body = ChunkedBody()
    for token in TOKENS:
        assert (body.feed(token), body.boundary, body.done) == (len(token), len(token), False)
    assert (body.feed(END), body.boundary, body.done) == (5, 5, True)


def test_bytes_after_the_end_are_not_of_this_message() -> None:
    body = ChunkedBody()
    assert body.feed(TOKENS[0] + END + b"HTTP/1.1") == len(TOKENS[0]) + 5


@pytest.mark.parametrize("data", [b"zz\r\nhello\r\n", b"-5\r\nhello\r\n", b"5" * 300])
def test_a_wrong_chunk_size_is_refused(data: bytes) -> None:
    with pytest.raises(FramingError):
        ChunkedBody().feed(data)
