"""Reading what others write: job traces, and published measurements as recordings."""
