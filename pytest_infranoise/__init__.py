"""Measure how much memory and CPU limits move the scores of an agentic coding benchmark.

This module runs at every pytest start, so it imports nothing.
"""

__version__ = "0.1.0"
