"""Erased subjects and sealed subject ids."""
