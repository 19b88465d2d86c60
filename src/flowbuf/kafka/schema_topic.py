"""Topic of schema descriptions. It imports nothing, for modules that need only its name."""

from __future__ import annotations

__all__ = ["SCHEMAS_TOPIC", "parse_schema_topic"]

SCHEMAS_TOPIC = "flowbuf-schemas"


def parse_schema_topic(text: str) -> str | None:
    """Return the topic that a user has named, or None for "none", which disables it."""
    return None if text == "none" else text
