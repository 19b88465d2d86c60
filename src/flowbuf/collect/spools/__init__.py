"""Bounded logs of flows on disk, which outputs read later."""
