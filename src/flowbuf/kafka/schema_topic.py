"""Topic of schema descriptions. This module imports nothing, for modules that need only its name."""

from __future__ import annotations

__all__ = ["SCHEMAS_TOPIC", "check_schema_topic", "parse_schema_topic"]

SCHEMAS_TOPIC = "flowbuf-schemas"


def parse_schema_topic(text: str) -> str | None:
    """Return the topic that a user has named, or None for "none", which disables it."""
    return None if text == "none" else text


def check_schema_topic(schema_topic: str | None, topic: str) -> None:
    """Check that schema descriptions have a topic of their own. Readers of messages cannot decode them.

    Raises:
        ValueError: the name of the topic is empty, or that of the topic of the messages.
    """
    if schema_topic == "":
        raise ValueError("schema_topic is empty; name a topic, or 'none'")
    if schema_topic == topic:
        problem = f"schema_topic is {topic!r}, which is the topic of the messages"
        raise ValueError(f"{problem}; name another topic, or 'none'")
