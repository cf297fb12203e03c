"""The words of the domain: pydantic and the standard library only, nothing that runs."""
