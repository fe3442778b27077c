"""Find the cause of a crash in the last lines of an engine's log.

vLLM starts several processes. The one that fails logs a traceback; those above it then end with errors that only point
back ("See root cause above"), and the container's termination message holds nothing else. The cause is the first error
that does not point elsewhere.
"""

import re
from collections.abc import Iterator, Sequence

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PREFIX = re.compile(r"^(\([^)]*pid=\d+\)\s*)?((DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:.,]+ (\[[^\]]*\]\s?)?)?")
"""``(EngineCore pid=27) ERROR 12-01 02:30:10 [core.py:900] ``, as vLLM 0.32 writes it."""
EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*\.)?[A-Z]\w*(Error|Exception|Interrupt|Exit|Failure)\b(:|$)")
USAGE = re.compile(r"^[\w ./-]+: error: ")
POINTERS = (
    "See root cause above",
    "See stack trace for root cause",
    "Engine core initialization failed",
    "WorkerProc initialization failed",
    "EngineDeadError",
    "SystemExit",
    "KeyboardInterrupt",
)
MAX_LENGTH = 500


def find_cause(log: str) -> str | None:
    """One line, or None if no line of the log is an error."""
    lines = [_strip(line) for line in log.splitlines()]
    return next(_errors(lines), None)


def _strip(line: str) -> str:
    return PREFIX.sub("", COLOUR.sub("", line)).rstrip()


def _errors(lines: Sequence[str]) -> Iterator[str]:
    for index, line in enumerate(lines):
        text = line.strip()
        if not (EXCEPTION.match(line) or USAGE.match(text)) or any(pointer in text for pointer in POINTERS):
            continue
        yield _with_detail(text, lines[index + 1 : index + 3])[:MAX_LENGTH]


def _with_detail(text: str, following: Sequence[str]) -> str:
    """Pydantic's first line only counts the errors: the field and what is wrong with it stand below."""
    if "validation error" not in text:
        return text
    detail = " ".join(re.sub(r"\[type=.*", "", line).strip() for line in following)
    return f"{text}: {detail}".rstrip()
