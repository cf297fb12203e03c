"""Where the promises in `streams/ports` are kept, one technology per module; nothing here decides."""
