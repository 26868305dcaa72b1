"""How calls reach other endpoints. Imported with the first call, but for `place`, which a worker enters when it starts."""
