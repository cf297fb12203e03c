"""How a question reaches a person and what becomes of the answer: rules are pure, the rest needs ports."""
