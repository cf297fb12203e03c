"""The pages for people: templates, static files and texts, independent of the HTTP server."""
