"""Files of the data folder: evidence, checkpoints, and their permissions."""
