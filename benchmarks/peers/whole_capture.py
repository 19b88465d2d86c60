"""Parse a whole capture with the Python library `netflow`: `whole_capture.py CAPTURE`.

flowbuf reads the capture. Its time is negligible.
"""

from __future__ import annotations

import sys

import netflow  # type: ignore[import-not-found, import-untyped, unused-ignore]

from flowbuf.io.capture import CaptureReader

if __name__ == "__main__":
    templates: dict[str, dict[int, object]] = {"netflow": {}, "ipfix": {}}
    flows = 0
    with CaptureReader(sys.argv[1]) as reader:
        for batch in reader:
            for i in range(len(batch)):
                flows += len(netflow.parse_packet(batch[i][0], templates).flows)
    print(f"{flows:,} flows")
