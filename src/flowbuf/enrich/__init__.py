"""Enrichment: what the wire does not say is filled in, on batches of columns.

An enrichment takes a `pyarrow.RecordBatch` of flows and returns one: a function of yours, or a TOML file of static data
(exporters, interfaces, networks, GeoIP databases, rules). `docs/enrichment.md` has an example of everything.
"""

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError("enrichment works on Arrow columns: pip install 'flowbuf[arrow]'") from error

from flowbuf.enrich.pipeline import Enrichment, Pipeline, load_enrichments

__all__ = ["Enrichment", "Pipeline", "load_enrichments"]
