"""The worker runtime: launcher, zygotes and workers. Nothing here is public."""
