"""Helpers of the tests that use ClickHouse."""
