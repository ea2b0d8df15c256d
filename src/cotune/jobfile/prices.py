"""List prices of devices: who asked how much on which day, read off which page.

A device without a price in the job file gets the cheapest of `prices.yaml` beside this file. A price is always shown
with its source and date, because prices move.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml


@dataclass(frozen=True, slots=True)
class Price:
    """What one device costs for an hour, where, and since when that is known."""

    device: str
    price_per_hour: float
    date: datetime.date
    source: str
    cloud: str = ""
    per_node: int | None = None
    currency: str = "USD"

    def __str__(self) -> str:
        where = f" at {self.cloud}" if self.cloud else ""
        return f"{self.price_per_hour:g} {self.currency} an hour{where}, {self.source}, {self.date.isoformat()}"


@cache
def shipped() -> tuple[Price, ...]:
    """Return the list that comes with cotune."""
    text = files("cotune.jobfile").joinpath("prices.yaml").read_text(encoding="utf-8")
    return tuple(Price(**row) for row in yaml.safe_load(text)["prices"])


def lookup(device: str, currency: str) -> Price | None:
    """Return the cheapest listed price of a device."""
    found = [price for price in shipped() if price.device == device.lower() and price.currency == currency]
    return min(found, key=lambda price: price.price_per_hour, default=None)
