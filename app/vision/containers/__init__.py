"""Parse the structure of JPEG, PNG and WebP files without decoding pixels."""
