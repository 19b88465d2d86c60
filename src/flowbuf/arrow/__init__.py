"""Flows as Arrow columns: batches, streams of batches, rows, and SQL over them."""
