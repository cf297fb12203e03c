"""Name screenings: names asked about, compared with the lists, and stored sealed."""
