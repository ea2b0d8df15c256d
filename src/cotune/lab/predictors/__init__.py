"""Published predictors of seconds and accuracy, as rivals: one file each."""
