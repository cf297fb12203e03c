"""The HTTP front: authorise calls, send commands, and read from the store."""
