"""One line, for people or for machines."""

import json
import logging

from pdserving.controller.logs import JsonFormatter, TextFormatter
from tests.support.harness import KEY


def record() -> logging.LogRecord:
    made = logging.LogRecord("pdserving", logging.INFO, __file__, 1, "reconciled", (), None)
    made.fields = {"group": KEY, "error": 'a "b"'}
    return made


def test_text_is_a_message_and_fields() -> None:
    assert TextFormatter().format(record()).endswith('reconciled group=serving/llm error="a \\"b\\""')


def test_json_is_one_object() -> None:
    line = json.loads(JsonFormatter().format(record()))
    assert (line["message"], line["group"], line["level"]) == ("reconciled", "serving/llm", "info")
