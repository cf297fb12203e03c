"""The global catalogue of documents, changed by the operator and used by every tenant."""
