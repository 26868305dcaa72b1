"""Deploys what cells of a notebook declare."""
