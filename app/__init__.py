"""Where Veristream meets the world: commands, HTTP, the embedded broker, models and stores."""
