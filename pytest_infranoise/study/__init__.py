"""A study on disk: its manifest, and its journal of trials."""
