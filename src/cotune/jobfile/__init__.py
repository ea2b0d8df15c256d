"""What a user writes: the job file, its command, its pattern, its prices."""
