"""Published measurements as recordings: one reader per data set."""
