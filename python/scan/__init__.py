"""Reads a project's Python files by Python's own parser for `svc build`. Nothing of the project is imported or run."""
