"""The promises of stores, evidence and events that `app.adapters` keeps."""
