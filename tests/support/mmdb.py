"""Writer of MaxMind databases for tests."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmdb_writer import MMDBWriter
from netaddr import IPSet


def database(networks: Mapping[str, Any], type: str = "GeoLite2-Country", ip_version: int = 6) -> bytes:
    """Return a database with a record for each network. A database for IPv6 has IPv4 networks below ::/96."""
    writer = MMDBWriter(
        ip_version, type, ["en"], "made for a test", ipv4_compatible=ip_version == 6, int_type="u32"
    )
    for network, record in networks.items():
        writer.insert_network(IPSet([network]), record)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "test.mmdb")
        writer.to_db_file(str(path))
        return path.read_bytes()
