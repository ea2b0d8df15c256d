"""The verbs of the cluster room."""
