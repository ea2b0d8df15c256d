"""`cotune init`: what a training script says of itself, written once into a job file; nothing else reads scripts."""
