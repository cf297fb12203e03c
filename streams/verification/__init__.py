"""How a verification is evaluated: readers and rules are pure, the rest speaks only to ports."""
