"""Reading what others write: job traces here; logs and launch files beside it."""
