"""Where the promises of `streams.ports` are kept, one technology per module; nothing here decides."""
