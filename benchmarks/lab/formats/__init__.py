"""Every format of the lab.

`FORMATS` is the one place where a format is plugged in: a `Format` whose `open` gives a `Coder` for a family.
The gate (tests/benchmarks/test_lab.py), the benchmarks (benchmarks/test_formats.py) and the pipeline
(benchmarks/pipeline) take them from here. One that is called "flowbuf" is what compare.py sets the others
beside.
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
