"""The published forms of lists, one module each: bytes in, entries out; no network, no disk."""
