"""Predictors that read layers: one file each."""
