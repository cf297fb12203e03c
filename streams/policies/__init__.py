"""Transaction policies: read with every error, compiled to closures, kept as immutable revisions."""
