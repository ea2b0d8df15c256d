from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cotune.placement.pipeline.placed import actions, ahead, rows, shared

few = st.integers(1, 6)


@given(few, st.integers(1, 9), st.integers(0, 12))
def test_every_batch_goes_forward_then_backward_once_and_in_order(stages: int, in_flight: int, count: int) -> None:
    for stage in range(stages):
        done = list(actions(stage, stages, in_flight, count))
        for kind in ("forward", "backward"):
            assert [number for action, number in done if action == kind] == list(range(count))
        under_way = 0
        for action, _ in done:
            under_way += 1 if action == "forward" else -1
            assert 0 <= under_way <= ahead(stage, stages, in_flight) <= in_flight


@given(few, st.integers(1, 9), st.integers(0, 12))
def test_no_stage_waits_for_one_that_waits_for_it(stages: int, in_flight: int, count: int) -> None:
    """Play all stages with messages as the only coupling; everybody must come to an end."""
    plays = [list(actions(stage, stages, in_flight, count)) for stage in range(stages)]
    went, came = [-1] * stages, [-1] * stages
    moved = True
    while moved:
        moved = False
        for stage, play in enumerate(plays):
            if not play:
                continue
            action, number = play[0]
            ready = stage == 0 or went[stage - 1] >= number
            if action == "backward":
                ready = stage == stages - 1 or came[stage + 1] >= number
            if ready:
                (went if action == "forward" else came)[stage] = number
                play.pop(0)
                moved = True
    assert not any(plays)


@given(st.integers(1, 50), few, few)
def test_what_one_stage_sends_is_what_the_next_one_takes(total: int, units: int, others: int) -> None:
    sent = {
        (unit, share.unit): (rows(total, units, unit)[0] + share.begin, rows(total, units, unit)[0] + share.end)
        for unit in range(units)
        for share in shared(total, units, unit, others)
    }
    taken = {
        (share.unit, other): (rows(total, others, other)[0] + share.begin, rows(total, others, other)[0] + share.end)
        for other in range(others)
        for share in shared(total, others, other, units)
    }
    assert sent == taken
    assert sorted(row for begin, end in sent.values() for row in range(begin, end)) == list(range(total))
