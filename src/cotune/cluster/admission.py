"""Whether a newcomer is promised room: where there is some, where others can lie closer, or where they cost more.

    room beside all others ─▶ promised
      └─ else, where nobody else waits, all promises laid anew, the widest first
           └─ else the dearest promises that are not firm taken back, one after the other

What is asked of the promises at that moment is asked of its `ledger`.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotune.cluster.ledger import Ledger
from cotune.cluster.policy import Active, Promise
from cotune.cluster.promises import Room


def admit(ledger: Ledger, new: Active) -> bool:
    """Promise room to a newcomer if there is some, or if others can make some; is it firm?"""
    if not ledger.candidates(new).ladders:
        return False
    promise, taken = ledger.offer(new), list[Active]()
    if promise is None:  # what others have done since they were promised room may have made some
        ledger.revise()
        promise = ledger.offer(new) or _among_all_laid_anew(ledger, new)
    if promise is None:
        promise, taken = _after_taking_back(ledger, new)
    if promise is None:
        return False
    new.promise = promise._replace(firm=_is_firm(ledger, new, promise))
    if taken:
        ledger.room(promise.device).take(promise)
        _promise_again(ledger, taken)
    return new.promise.firm


def _among_all_laid_anew(ledger: Ledger, new: Active) -> Promise | None:
    """Lay all promises anew, the widest first, and return a newcomer's; nothing where that fails, or others wait.

    Laid one after the other as jobs come, narrow promises may leave no stretch that is wide enough for the next.
    """
    if ledger.others_wait(new):
        return None
    rooms = {device: Room(new.synced, units, ()) for device, units in ledger.there.items()}
    laid: dict[Active, Promise] = {}
    for job in sorted(ledger.urgent, key=lambda job: (-_narrowest(ledger, job), -job.deadline_left, job.number)):
        promise = ledger.fit(job, rooms)
        if promise is None:
            return None
        rooms[promise.device].take(promise)
        laid[job] = promise
    for job, anew in laid.items():
        job.promise = anew._replace(firm=job.promise is not None and job.promise.firm)
    ledger.revise()
    return laid[new]


def _after_taking_back(ledger: Ledger, new: Active) -> tuple[Promise | None, list[Active]]:
    """Take back dearer promises until there is room for a newcomer; return its own, and whose were taken."""
    dear = [] if ledger.crowds_out(new) else _dearer(ledger, new)
    if len(dear) > 1 and not _suffices(ledger, dear, new):
        return None, []
    for count, dearer in enumerate(dear, start=1):
        assert dearer.promise is not None
        ledger.room(dearer.promise.device).give_back(dearer.promise)
        promise = ledger.fit(new)
        if promise is not None:
            return promise, dear[:count]
    return None, []


def _promise_again(ledger: Ledger, taken: Sequence[Active]) -> None:
    """Promise room again to those whose promises were taken back, the cheapest first, where there is still some."""
    for job in reversed(taken):
        again = ledger.fit(job)
        job.promise = None if again is None else again._replace(firm=False)
        if again is not None:
            ledger.room(again.device).take(again)


def _narrowest(ledger: Ledger, job: Active) -> int:
    return min((ladder.units[0] for ladder in ledger.candidates(job).ladders), default=0)


def _suffices(ledger: Ledger, dear: Sequence[Active], new: Active) -> bool:
    """Return whether there would be room for a newcomer if all of some promises were taken back."""
    promises = [job.promise for job in dear if job.promise is not None]
    for promise in promises:
        ledger.room(promise.device).give_back(promise)
    found = ledger.fit(new)
    for promise in promises if found is not None else ():
        ledger.room(promise.device).take(promise)
    return found is not None


def _dearer(ledger: Ledger, new: Active) -> list[Active]:
    """Return those whose promises may be taken back for a newcomer, the dearest first."""
    least = ledger.terms.worth * ledger.price(new)
    soft = (job for job in ledger.urgent if job is not new and job.promise and not job.promise.firm)
    found = sorted((-price, job.number, job) for job in soft if (price := ledger.price(job)) > least)
    return [job for *_, job in found[: ledger.terms.revoked]]


def _is_firm(ledger: Ledger, new: Active, promise: Promise) -> bool:
    """Return whether firm promises leave enough to others with this one."""
    now, due = new.synced, new.synced + new.deadline_left
    most = ledger.terms.firm * ledger.there[promise.device] * new.deadline_left - promise.held(now, due)
    if ledger.there[promise.device] * new.deadline_left - ledger.room(promise.device).left(due) <= most:
        return True
    others = (job.promise for job in ledger.urgent if job is not new and job.promise)
    return sum(one.held(now, due) for one in others if one.firm and one.device == promise.device) <= most
