"""Decisions be published: endpoints, deliveries, their schedule and their signatures."""
