"""Kubernetes quantities, as far as two of them must be compared: the API server stores 1000m as 1."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any

BINARY = {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
DECIMAL = {
    suffix: Decimal(1000) ** power
    for power, suffix in (
        (-3, "n"),
        (-2, "u"),
        (-1, "m"),
        (0, ""),
        (1, "k"),
        (2, "M"),
        (3, "G"),
        (4, "T"),
        (5, "P"),
        (6, "E"),
    )
}
PATTERN = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?[0-9]{1,2})?)([KMGTPE]i|[numkMGTPE]?)$")


def parse_quantity(value: Any) -> Decimal | None:
    """The number, or None if it is no quantity."""
    match = PATTERN.match(str(value))
    if not match or isinstance(value, bool):
        return None
    try:
        return Decimal(match[1]) * (BINARY | DECIMAL)[match[2]]
    except InvalidOperation:
        return None


def same_quantity(left: Any, right: Any) -> bool:
    number = parse_quantity(left)
    return number is not None and number == parse_quantity(right)
