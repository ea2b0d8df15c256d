"""The verbs of the placement room."""
