"""Logs of other tools as runs: one reader per tool."""
