"""The HTTP front: says who may ask what, turns requests into commands, and reads only the store."""
