"""Dispositions: matches that a person judged to be none, as long as the listed entry stays the same."""
