"""Start, stop and console output of every process."""
