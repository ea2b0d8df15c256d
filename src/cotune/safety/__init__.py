"""What comes from others is read within bounds, and what is secret is shown to nobody else."""
