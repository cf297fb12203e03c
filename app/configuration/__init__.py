"""Validation of settings; `app.settings` reads them."""
