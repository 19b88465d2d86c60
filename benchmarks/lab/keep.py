"""Of a result, what is worth keeping: what was measured, and on what kind of machine.

    python -m benchmarks.lab.keep RESULT.json KEPT.json

A result is what `pytest benchmarks --benchmark-json=RESULT.json` wrote. What is kept is of the same form, so
that `compare.py`, `lab.split` and the notebooks read it, an eighth as large, a line each; the machine's name,
what its processor can do and the repository are not in it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["keep"]


def keep(content: Any) -> Iterator[str]:
    """Lines of JSON. Raises ValueError where it is no result of pytest-benchmark."""
    if not isinstance(content, dict) or not {"benchmarks", "machine_info"} <= content.keys():
        raise ValueError("not of pytest --benchmark-json")
    info = content["machine_info"]
    machine = {key: info[key] for key in ("machine", "system", "python_implementation", "python_version")}
    machine["cpu"] = {key: info["cpu"][key] for key in ("brand_raw", "count") if key in info.get("cpu", {})}
    results = [{"name": each["name"], "extra_info": each["extra_info"]} for each in content["benchmarks"]]
    yield f'{{"machine_info": {json.dumps(machine)}, "datetime": {json.dumps(content["datetime"])}, "benchmarks": ['
    yield ",\n".join(map(json.dumps, results))
    yield "]}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path, metavar="RESULT.json")
    parser.add_argument("kept", type=Path, metavar="KEPT.json")
    given = parser.parse_args(arguments)
    try:
        lines = list(keep(json.loads(given.result.read_text())))
        given.kept.write_text("\n".join(lines) + "\n")
    except (OSError, ValueError) as error:
        sys.exit(f"keep: {error}")


if __name__ == "__main__":
    main()
