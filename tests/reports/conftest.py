from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from browsers import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started
