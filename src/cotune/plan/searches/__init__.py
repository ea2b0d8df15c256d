"""Searches that plan by default: one file each."""
