"""The formats of the lab.

Register a format in `FORMATS`: a `Format` whose `open` returns a `Coder` for a family. The tests
(tests/benchmarks/test_lab.py), the benchmarks (benchmarks/test_formats.py) and the pipeline
(benchmarks/pipeline) use this list. compare.py compares the other formats with the one named "flowbuf".
"""

from __future__ import annotations

from .avro import AVRO
from .base import Coder, Format
from .binary import BINARY
from .codec import FLOWBUF
from .positional import POSITIONAL
from .protobuf import PROTOBUF
from .structs import STRUCTS
from .text import JSON

__all__ = ["FORMATS", "Coder", "Format"]

FORMATS: tuple[Format, ...] = (*FLOWBUF, *PROTOBUF, *JSON, *AVRO, *BINARY, *STRUCTS, *POSITIONAL)
