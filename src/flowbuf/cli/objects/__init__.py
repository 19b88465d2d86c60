"""Commands for messages of any type, which may have no columns."""
