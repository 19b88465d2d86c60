"""Run passes of a codec over the objects of a family. benchmarks/instructions.py counts its instructions.

python -m benchmarks.codec_passes FAMILY encode|decode PASSES
"""

from __future__ import annotations

import gc
import sys

from benchmarks.lab.families import FAMILIES
from flowbuf import Codec


def main(family: str, direction: str, passes: str) -> None:
    codec = Codec.load(family)
    records = [FAMILIES[family].rotate(1, position)[0] for position in range(len(FAMILIES[family].records))]
    messages = [codec.encode(record) for record in records]
    call, inputs = (codec.encode, records) if direction == "encode" else (codec.decode, messages)
    gc.disable()
    for _ in range(int(passes)):
        for each in inputs:
            call(each)


if __name__ == "__main__":
    main(*sys.argv[1:])
