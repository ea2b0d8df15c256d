"""Layouts of large models: data, tensor and pipeline degrees, sharding, micro-batch, in one exact search.

Transformer ─┐
Machine ─────┼▶ Layouts (exact) ─▶ terms ─▶ law of seconds ─┐
Framework ───┘                  └▶ bytes per stage ─────────┴▶ LayoutForecasts ─▶ next to measure, choice
"""
