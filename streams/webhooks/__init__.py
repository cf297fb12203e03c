"""Decisions leave the house: endpoints, deliveries, their schedule and their signatures."""
