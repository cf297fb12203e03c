"""Faces: found, aligned and compared on onnxruntime; nothing here decodes request bytes or decides."""
