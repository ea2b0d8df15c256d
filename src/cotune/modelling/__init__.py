"""A room of its own: what a model costs before it runs, counted, modelled or measured layer by layer."""
