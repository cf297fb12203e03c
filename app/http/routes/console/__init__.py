"""The console's pages, each drawn from the answers of routes of the interface."""
