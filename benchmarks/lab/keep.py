"""Reduce a result file to the measurements and the kind of machine.

    python -m benchmarks.lab.keep RESULT.json KEPT.json

RESULT.json is the output of `pytest benchmarks --benchmark-json=RESULT.json`. KEPT.json has the same form, an
eighth of the size, and one line per result. `compare.py`, `lab.split` and the notebooks read it. It does not
contain the machine's name, the features of its processor and the repository.
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
    """Yield lines of JSON. Raises ValueError if `content` is not a result of pytest-benchmark."""
    if not isinstance(content, dict) or not {"benchmarks", "machine_info"} <= content.keys():
        raise ValueError("not a result of pytest --benchmark-json")
    info = content["machine_info"]
    machine = {key: info[key] for key in ("machine", "system", "python_implementation", "python_version")}
    machine["cpu"] = {key: info["cpu"][key] for key in ("brand_raw", "count") if key in info.get("cpu", {})}
    results = [{"name": each["name"], "extra_info": each["extra_info"]} for each in content["benchmarks"]]
    head = f'"machine_info": {json.dumps(machine)}, "datetime": {json.dumps(content["datetime"])}'
    yield f'{{{head}, "benchmarks": ['
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
