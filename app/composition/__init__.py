"""Builds stores, engines, agents and the front from the settings."""
