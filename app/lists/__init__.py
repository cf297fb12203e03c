"""The deployment's lists: loaded from published files, stored as snapshots, served from memory."""
