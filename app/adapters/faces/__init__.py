"""Search among the faces of approved subjects."""
