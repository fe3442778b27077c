"""Log lines: a constant message and key=value fields, as text for people or as JSON for machines.

Fields travel in `extra={"fields": {...}}`, so that a layer which only logs needs nothing from here.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal

Format = Literal["text", "json"]


def set_up_logging(form: Format, level: int = logging.INFO) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return dict(getattr(record, "fields", {}))


def _at(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {key}={_quote(value)}" for key, value in _fields(record).items())
        line = f"{_at(record)} {record.levelname:<7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _quote(value: Any) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(char in text for char in ' "=\n') else text
