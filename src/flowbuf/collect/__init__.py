"""Collect flows live: receive datagrams, decode them, and write their flows to outputs."""
