"""What it means for the conditions that an object could not be written."""

from collections.abc import Mapping, Sequence
from typing import Any

from pdserving.api import conditions as c
from pdserving.api.labels import ROLE_LABEL
from pdserving.core.actions import ApplyFailure
from pdserving.core.conditions import Verdict, Verdicts
from pdserving.core.template import look_up

REASONS = {
    "Invalid": c.REJECTED,
    "BadRequest": c.REJECTED,
    "RequestEntityTooLarge": c.REJECTED,
    "Forbidden": c.FORBIDDEN,
    "MethodNotAllowed": c.FORBIDDEN,
    "AlreadyExists": c.NAME_TAKEN,
}
"""Answers of the API server that a repetition will not change, and our reasons for them."""


def judge_failures(
    verdicts: Verdicts, failures: Sequence[ApplyFailure], templates: Sequence[Mapping[str, Any]]
) -> dict[str, Verdict]:
    """The verdicts that change. `templates` are the objects that carry a user's template, which is what to correct."""
    refused = next((failure for failure in failures if _reason(failure)), None)
    text = _describe(refused or failures[0], templates)
    reason = _reason(refused) if refused else None
    if reason is None:
        retrying = Verdict("True", c.RETRYING, f"{text}; trying again")
        return {c.RECONCILING: retrying, c.STALLED: Verdict("False", c.PROGRESSING, "nothing is in the way")}
    return {
        c.STALLED: Verdict("True", reason, text),
        c.RECONCILING: Verdict("False", reason, "stalled, see the condition Stalled"),
        c.READY: _judge_ready(verdicts[c.READY], reason, text),
        **({c.SPEC_VALID: Verdict("False", reason, text)} if reason == c.REJECTED else {}),
    }


def _judge_ready(before: Verdict, reason: str, text: str) -> Verdict:
    if before.status == "True":
        return Verdict("True", c.SERVING_LAST_VALID_SPEC, f"what ran goes on: {text}")
    return Verdict("False", reason, text)


def _reason(failure: ApplyFailure) -> str | None:
    return REASONS.get(failure.reason)


def _describe(failure: ApplyFailure, templates: Sequence[Mapping[str, Any]]) -> str:
    text = f"{failure.ref.kind} {failure.ref.name}: {failure.message}"
    carrier = next((live for live in templates if live["metadata"]["name"] == failure.ref.name), None)
    role = look_up(carrier, ("spec", "template", "metadata", "labels", ROLE_LABEL))
    return f"{text}; correct spec.{role}.template" if role else text
