"""Read a capture once or twice, and summarize it."""

from __future__ import annotations

import functools
from typing import Any

from flowbuf.cli.inputs import total_size
from flowbuf.cli.options import CaptureOptions
from flowbuf.cli.output.progress import show_progress
from flowbuf.cli.output.report import Report, count_things
from flowbuf.cli.state import read_state
from flowbuf.cli.survey.capture import survey_capture
from flowbuf.cli.survey.fields import survey_fields
from flowbuf.decoder import Decoder
from flowbuf.io.capture import CaptureReader
from flowbuf.io.input_stream import Content
from flowbuf.schema import Schema

__all__ = ["survey_file"]


def survey_file(
    path: str, decoding: CaptureOptions, report: Report, schema: Schema | None = None
) -> dict[str, Any]:
    """Return the summary of a capture. An error of reading is reported, and ends it.

    `schema` is that of `survey_fields`. Raise CaptureError if it is not a capture.
    """

    def new_decoder(schema: Schema, report: Report = report) -> Decoder:
        decoder = decoding.new_decoder(schema)
        read_state(decoding.state, decoder, report)
        return decoder

    with (
        Content(path, ends_at_error=True) as content,
        CaptureReader(content, decoding.port) as reader,
        show_progress(total_size([path])) as show,
    ):
        survey = survey_capture(reader, show, new_decoder)
    again = None if path == "-" or content.size is None else path  # a pipe cannot be read again
    survey["fields"] = survey_fields(
        survey, again, decoding.port, functools.partial(new_decoder, report=Report()), schema
    )
    if content.failure:
        flows = sum(exporter["flows"] for exporter in survey["exporters"])
        report.add_problem(f"{content.name}: {content.failure} after {count_things(flows, 'flow')}")
    return survey
