"""Networks by name, to count, to time and to take steps of."""
