"""Searches that are there to be compared: one file each."""
