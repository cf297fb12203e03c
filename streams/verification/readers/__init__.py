"""Recognised text in, fields out: each reader knows one class of documents, and no reader sees a pixel."""
