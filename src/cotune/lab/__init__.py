"""A room of its own: published rivals, compared with cotune on measured truth."""
