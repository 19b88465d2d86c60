"""Fill columns that are not on the wire, on Arrow batches of flows.

An enrichment takes a `pyarrow.RecordBatch` of flows and returns one. It is a Python function, or a TOML file
of static data: exporters, interfaces, networks, GeoIP databases and rules. docs/how-to/enrichment.md has
examples.

Example:
    from flowbuf.enrich import load_enrichments

    pipeline = load_enrichments(["network.toml", "my_module:add_names"], flowbuf.Schema.load("flow"))
    flows = flowbuf.read_capture("flows.pcap", pipeline.extend(pipeline.schema))
    for batch in flows:
        enriched = pipeline(batch)
"""

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError("enrichment needs pyarrow; run pip install 'flowbuf[arrow]'") from error

from flowbuf.enrich.pipeline import Enrichment, Pipeline, load_enrichments

__all__ = ["Enrichment", "Pipeline", "load_enrichments"]
