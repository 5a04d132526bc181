"""What works on a task: the oracle, nobody, or a command line."""
