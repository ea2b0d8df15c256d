"""Benchmarks on recordings: how well methods plan, and how well predictors predict."""
