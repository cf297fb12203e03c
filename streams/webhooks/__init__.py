"""Webhooks: endpoints, deliveries, the retry schedule and signatures."""
