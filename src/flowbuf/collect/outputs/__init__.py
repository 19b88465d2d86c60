"""Outputs of the collector. Each takes record batches of flows in a thread of its own."""
