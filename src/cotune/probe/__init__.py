"""Which config to measure next, and measuring it."""
