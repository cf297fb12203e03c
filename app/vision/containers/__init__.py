"""The outer structure of JPEG, PNG and WebP files, read without touching a pixel."""
