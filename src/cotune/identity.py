"""What a start or a plan is marked with: a name of its own, and when it was."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime


def new_id() -> str:
    """Return a short name that nothing else has."""
    return uuid.uuid4().hex[:12]


def timestamp() -> str:
    """Return the present as ISO 8601, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
