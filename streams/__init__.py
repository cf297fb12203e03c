"""What happens: Faust agents, handlers and pure rules over ports, never HTTP or a database."""
