"""One job from its file to its run: `Project` (in `project.py`) is the one way in, the rest is what it is made of."""
