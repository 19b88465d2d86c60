"""Benchmarks of messages of any type: columns, JSON, classes, and message types of public benchmarks."""
