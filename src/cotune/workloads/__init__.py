"""Ready-made jobs: ordinary training scripts that run alone, under torchrun and under cotune.

`train` is the script, `models` and `data` what it trains on what; models to count and to time are found by
`modelling/workloads/`.
"""
