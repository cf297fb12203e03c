"""The global catalogue of documents: the operator's alone to change, for every tenant to choose from."""
