"""Keys, sealing, password hashes and signatures."""
