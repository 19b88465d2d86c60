"""IPFIX over TCP and TLS."""
