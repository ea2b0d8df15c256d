"""Tests of one group run on one worker, so that what they share is made once."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("groups")
def test_the_id_of_a_test_names_its_group_by_which_xdist_keeps_it_together(request: pytest.FixtureRequest) -> None:
    by_group = getattr(request.config.option, "loadgroup", False)  # what xdist tells its workers
    assert request.node.nodeid.endswith("together@groups") is by_group
