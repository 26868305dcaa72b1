"""How calls reach other endpoints: finding them, asking, waiting, and what their callers hold. Imported with the first call."""
