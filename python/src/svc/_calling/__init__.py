"""How calls reach other endpoints. Imported with the first call."""
