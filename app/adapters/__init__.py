"""Where the promises of `streams.ports.stores` are kept, one technology per module; nothing here decides."""
