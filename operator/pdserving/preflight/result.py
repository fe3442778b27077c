"""The answer of a preflight: what the operator reads from the termination message and a person reads as a table.

The JSON is a contract between images of different versions, so ``version`` is bumped when a field changes its meaning.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

VERSION: Final = 1
MESSAGE_LIMIT: Final = 4096
"""Bytes of a container's termination message that the kubelet keeps."""


class Status(StrEnum):
    PASS = "pass"  # noqa: S105 - a verdict, not a password
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Check:
    """One verdict: what was measured, what would have been right, and what to do about the difference."""

    name: str
    status: Status
    value: str
    expected: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return not any(check.status is Status.FAIL for check in self.checks)


def to_json(result: Result) -> str:
    return _encode(result.passed, result.checks, text_limit=MESSAGE_LIMIT)


def to_message(result: Result, limit: int = MESSAGE_LIMIT) -> str:
    """The same JSON within `limit` bytes, still whole JSON.

    A long story loses its skipped checks first, then the words of all texts; verdicts are never dropped.
    """
    told = tuple(check for check in result.checks if check.status is not Status.SKIP)
    attempts = [(result.checks, MESSAGE_LIMIT)] + [(told, length) for length in (MESSAGE_LIMIT, 200, 100, 50, 20, 0)]
    for checks, text_limit in attempts:
        text = _encode(result.passed, checks, text_limit=text_limit)
        if len(text.encode()) <= limit:
            break
    return text


def _encode(passed: bool, checks: Sequence[Check], *, text_limit: int) -> str:
    document = {"version": VERSION, "passed": passed, "checks": [_to_dict(check, text_limit) for check in checks]}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _to_dict(check: Check, text_limit: int) -> dict[str, str]:
    texts = {"value": check.value, "expected": check.expected, "remedy": check.remedy}
    kept = {key: _shorten(text, text_limit) for key, text in texts.items() if text and text_limit}
    return {"name": check.name, "status": check.status.value, **kept}


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def format_table(result: Result) -> str:
    """Aligned columns, and below each warning or failure what to do."""
    name_width = max((len(check.name) for check in result.checks), default=0)
    lines: list[str] = []
    for check in result.checks:
        wanted = f"  (expected: {check.expected})" if check.expected else ""
        lines.append(f"{check.name:<{name_width}}  {check.status.upper():<4}  {check.value}{wanted}")
        if check.remedy:
            lines.append(f"{'':<{name_width}}        → {check.remedy}")
    lines.append("preflight passed" if result.passed else "preflight FAILED")
    return "\n".join(lines)
