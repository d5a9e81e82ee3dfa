"""Deployments that are killed or signalled at random moments, and their leftovers."""
