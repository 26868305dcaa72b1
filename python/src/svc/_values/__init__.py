"""What functions take and give: signatures, conversion, JSON, values with their types, failures. Knows nothing of workers or calls."""
