"""The verbs of the core, one file each: parse, call, print."""
