"""Review cases: opening, assigning, concluding and appealing; the rules are pure."""
