"""Contact details of a party to a transaction: telephone number, e-mail address, postal address (G127)."""
