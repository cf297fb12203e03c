"""Lists to screen against: their published forms, the guard of a load, their versions."""
