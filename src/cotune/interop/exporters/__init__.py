"""Plans as files for launchers: one file per launcher."""
