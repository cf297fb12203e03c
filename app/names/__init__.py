"""The process that holds the index of listed names: its messages, its supervision, and its entry point."""
