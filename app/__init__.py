"""The application: command line, HTTP front, embedded broker, vision models and stores."""
