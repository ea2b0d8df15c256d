"""Engines: one file each."""
