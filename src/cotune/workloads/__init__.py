"""Ready-made jobs: ordinary training scripts that run alone, under torchrun and under cotune.

`train` is the script, `models` and `data` what it trains on what; `catalogue` lists all models of the box by name, and
`named` finds them or a user's own.
"""
