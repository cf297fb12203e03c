"""Distances of face vectors; each embedder belongs to one metric."""

from enum import StrEnum

import numpy as np

from streams.vision_ports import Embedding


class Metric(StrEnum):
    """The metric of an embedder."""

    EUCLIDEAN = "euclidean"
    COSINE = "cosine"
    """One minus the cosine of vectors of unit length, 0-2."""

    def distance(self, one: Embedding, other: Embedding) -> float:
        """Return how far apart two vectors are, never below 0."""
        if self is Metric.EUCLIDEAN:
            return float(np.linalg.norm(one - other))
        return max(0.0, 1.0 - float(one.astype(np.float64) @ other.astype(np.float64)))
