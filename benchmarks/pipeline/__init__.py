"""Measure formats behind a real broker: a consumer reads a constant number of records from a topic.

A producer fills a new topic and ends. Then a consumer on one processor with limited memory reads the topic
from its first offset. The consumer never waits for a producer, so its own speed is measured.
"""
