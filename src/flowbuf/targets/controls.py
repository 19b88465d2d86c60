"""Characters that change how a terminal shows text: controls, line separators, bidirectional controls."""

from __future__ import annotations

import re

__all__ = ["BIDIRECTIONAL", "CONTROLS"]

BIDIRECTIONAL = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Line separators and bidirectional controls, as ranges of a regular expression."""

CONTROLS = re.compile(f"[\x00-\x1f\x7f-\x9f{BIDIRECTIONAL}]")
"""One of these characters, or a control: C0 (tab and line feed too), DEL or C1."""
