"""One module per family of routes; a handler names who, what and one call, nothing more."""
