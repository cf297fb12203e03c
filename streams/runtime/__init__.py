"""The machinery under every agent: log, consumer, guard, tables, answers; it knows no domain rule."""
