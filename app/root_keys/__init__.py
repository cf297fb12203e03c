"""Rotation of the root key: a new key, every data key wrapped under it, the old key removed."""
