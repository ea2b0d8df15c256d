"""Placement methods: one file each."""
