"""What the Slurm engine is made of."""
