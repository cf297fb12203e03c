"""Names of people and organisations: normalised, indexed, compared and explained; pure."""
