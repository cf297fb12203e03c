"""Every store port in memory, for tests."""
