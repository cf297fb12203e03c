"""Checks of values that settings hold; `app.settings` reads them."""
