"""Receive flows from live exporters."""
