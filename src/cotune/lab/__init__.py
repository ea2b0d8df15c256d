"""A room of its own: published rivals, compared with cotune on measured truth.

strategies/, searches/   the rivals, those of one idea in one file
bench/                   goals, predictions and layouts whose answer is recorded, and how far each method is off
importers/               readers of published measurements
"""
