"""`veristream demo`: the demonstration, its specimen documents and its webhook receiver."""
