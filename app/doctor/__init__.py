"""Checks of a deployment: `veristream doctor`, `status` and `audit verify`."""
