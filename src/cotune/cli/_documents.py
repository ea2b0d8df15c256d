"""Records as the command line shows them, which is how every other part shows them too."""

from cotune.documents import *  # noqa: F403
