"""Parse the structure of JPEG, PNG and WebP files without decoding pixels.

Pillow opens truncated files and files with an archive or a script after the picture, which are refused here.
It removes metadata only by encoding the picture again; here the bytes of the picture are copied unchanged.
"""
