"""Reading what other tools log, and writing what other launchers read."""
