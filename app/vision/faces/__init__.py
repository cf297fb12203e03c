"""Detect, align and compare faces on onnxruntime; no request bytes are decoded here."""
