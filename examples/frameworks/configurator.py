"""Overrides settings of the script that runs it, in the manner of nanoGPT: `--batch_size=32`."""

import sys
from ast import literal_eval

for _word in sys.argv[1:]:
    _key, _, _value = _word.removeprefix("--").partition("=")
    if _key not in globals():
        raise ValueError(f"Unknown config key: {_key}")
    globals()[_key] = literal_eval(_value)
