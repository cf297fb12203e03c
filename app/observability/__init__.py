"""Logs, metrics, and measurements of backlogs and disks."""
