"""Which config to measure next, and measuring it.

design          what chooses probes: `Design` covers the space
active          `ActiveDesign`, for a goal: the probe that is worth the most for the decision
gain            the config whose seconds would tell the most of all others' (both designs ask it)
recalling       either, with what jobs like this one showed before
measure         starts what a design chooses, one probe after another, within a budget
session         that loop to its end, each sample saved and shown
self_measuring  a run without a profile, which decides as it trains
"""
