"""The pytest plugin; the only place that imports pytest."""
