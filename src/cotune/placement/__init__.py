"""A room of its own: layers on types of device, and pipelines that run them.

profiles, problems    what layers take on every type, and what is asked of a placement
placements/, answers  one file for each method, and the answer with its proof; `exact` stands on `paths`, `counting`,
                      `multipliers` and `labels`
pipeline/             the program that every unit of a placement runs; `staged` starts it, `elastic` keeps it going
"""
