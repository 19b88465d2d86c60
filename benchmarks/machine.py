"""Description of the machine of a measurement, for results and captions."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

from flowbuf.bench import name_processor

__all__ = ["describe_machine", "find_machine"]


def find_machine() -> dict[str, Any]:
    """Return this machine's properties for a caption, named as in `machine_info` of pytest-benchmark."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "python_version": platform.python_version(),
        "cpu": {"brand_raw": name_processor(), "count": os.cpu_count()},
    }


def describe_machine(found: Mapping[str, Any] | None = None) -> str:
    """Describe processor, number of processors and Python version, of this machine or of a result."""
    found = found or find_machine()
    cpu = found.get("cpu", {})
    count = cpu.get("count")
    processors = {None: "", 1: "1 processor, "}.get(count, f"{count} processors, ")
    return f"{cpu.get('brand_raw') or found['machine']}, {processors}Python {found['python_version']}"
