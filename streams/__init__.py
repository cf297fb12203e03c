"""The domain: Faust agents, handlers and pure rules over ports, without HTTP and databases."""
