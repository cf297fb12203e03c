"""One module for each family of routes; a handler authorises, reads and makes one call."""
