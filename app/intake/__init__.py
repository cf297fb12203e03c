"""From a request with images to stored evidence and a command."""
