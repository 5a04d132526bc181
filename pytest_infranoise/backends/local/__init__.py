"""Trials on this Linux host without a container engine: namespaces, overlays and cgroups."""

from pytest_infranoise.backends.local.backend import LocalBackend

__all__ = ["LocalBackend"]
