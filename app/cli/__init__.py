"""The command line: `main` and the commands by what they are about."""
