"""What must hold in every deployment at every moment, judged from values alone."""
