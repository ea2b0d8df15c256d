"""A room of its own: many jobs on one cluster, simulated and for real."""
