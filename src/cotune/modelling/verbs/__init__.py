"""The verbs of the modelling room."""
