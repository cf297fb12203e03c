"""The documentation as pages: Markdown and the interface's description, drawn for readers."""
