"""Times as the API server writes them."""

from datetime import datetime
from typing import Any


def parse_time(value: Any) -> datetime | None:
    """With a time zone always, so that two of them can be compared; None for anything else."""
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return time if time.tzinfo else None
