"""Deployments that are killed or signalled at random moments, and what they leave behind."""
