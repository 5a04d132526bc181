"""Numbers in, frozen results out: the methods of docs/statistics.md."""
