"""One job from its file to its run: `Project` is the one way in, the rest is what it is made of.

project            `Project` itself, and `cotune.open`
workspace          its settings, store, engine and display, which is what a profile and a run are given
planner            forecasts of every config judged by a goal, and the plan that `plan/choose.py` puts together
profile            which probes are measured, on which engine, within which limits
run, run_watch     a plan carried out, and what is said meanwhile; `layout_change` moves it, `ended_runs` sums it up
"""
