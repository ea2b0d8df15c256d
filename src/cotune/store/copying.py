"""A store copied into an empty one while others write to it: a back-up, the way back, and the way to another database.

All of it is read at one moment and written in one transaction. Whoever led the queue of the store does not lead that of
the copy, but its term is kept: the next one has a higher one.
"""

from __future__ import annotations

from sqlalchemy import Connection, Integer, Table, func, select, update

from cotune.errors import UsageError
from cotune.store.database import Store
from cotune.store.schema import METADATA, applied, leaders

_AT_ONCE = 1000  # rows in memory


def copy_store(source: Store, target: Store) -> dict[str, int]:
    """Copy all rows of a store into an empty one; return how many there were of each table."""
    counts: dict[str, int] = {}
    with source.reading() as read, target.writing() as write:
        for table in METADATA.sorted_tables:
            if table is applied:
                continue
            if write.scalar(select(func.count()).select_from(table)):
                raise UsageError(f"{target.label} is not empty: name a store that is not there yet")
            counts[table.name] = _copy(read, write, table)
        write.execute(update(leaders).values(expires=0.0))
    return counts


def _copy(read: Connection, write: Connection, table: Table) -> int:
    count = 0
    for part in read.execute(select(table)).mappings().partitions(_AT_ONCE):
        write.execute(table.insert(), [dict(row) for row in part])
        count += len(part)
    numbers = [column for column in table.primary_key if isinstance(column.type, Integer)]
    if count and write.dialect.name == "postgresql" and len(numbers) == 1:
        (number,) = numbers  # the next row that is written gets the next one
        sequence = func.pg_get_serial_sequence(table.name, number.name)
        write.execute(select(func.setval(sequence, select(func.max(number)).scalar_subquery())))
    return count
