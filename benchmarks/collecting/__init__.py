"""Measure `flowbuf collect` beside bare socket loops and other collectors, over the loopback interface.

`benchmarks/collector.py` is the command. Each part is a module with one function, which measures and returns
its results as JSON. A sum that is wrong ends the part with `WrongSum`.
"""
