"""The search among the faces of approved subjects."""
