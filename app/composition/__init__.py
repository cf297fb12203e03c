"""Where stores, engines, agents and the front are put together from the settings."""
