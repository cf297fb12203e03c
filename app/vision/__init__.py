"""Vision engines: each module adapts one library to a port of `streams.vision_ports`."""
