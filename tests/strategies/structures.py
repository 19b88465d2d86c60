"""Hypothesis strategies for lists of records inside records (RFC 6313)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from tests.support import datagrams as d

DEEPEST = 5  # one level more than the decoder reads


@st.composite
def structures(
    draw: st.DrawFn,
    multiple: bool,
    known: Mapping[int, Any],
    depth: int,
    records: Callable[[Any, Any, int], st.SearchStrategy[bytes]],
) -> bytes:
    """Draw a list of records, mostly of known templates. Some have wrong lengths, some are truncated."""
    parts = []
    for _ in range(draw(st.integers(0, 3 if multiple else 1))):
        template_id = draw(st.sampled_from([*known, *known, *known, 400]))
        layout = known.get(template_id)
        if layout is None or depth == DEEPEST:
            parts.append((template_id, draw(st.binary(min_size=5, max_size=5))))
        else:
            parts.append(
                (template_id, b"".join(draw(st.lists(records(layout, known, depth + 1), max_size=3))))
            )
    semantic = draw(st.sampled_from([0, 3, 3, 3, 255]))
    if multiple:
        content = d.sub_template_multi_list(*parts, semantic=semantic)
    else:
        content = d.sub_template_list(*(parts[0] if parts else (256,)), semantic=semantic)
    place = draw(st.integers(0, len(content) - 1))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return content[:place]
    return (
        content[:place] + draw(st.binary(min_size=1, max_size=1)) + content[place + 1 :]
        if kind == 1
        else content
    )
