"""Read the text of a policy: YAML or JSON to a document, or to every error with its place (G111)."""
