"""Predictors of seconds and accuracy: one file each."""
