"""The devices there are, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of machine with its price in money per hour; no price counts device-seconds.

    `price_source` says where a price comes from that the user has not given.
    """

    name: str = "cpu"
    count: int | None = None
    price_per_hour: float | None = None
    per_node: int | None = None
    bill: Literal["device", "node"] = "device"
    price_source: str = ""
    nodes_per_rack: int | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The devices there are, and the currency of their prices."""

    devices: tuple[Device, ...] = (Device(),)
    currency: str = "USD"

    @property
    def priced(self) -> bool:
        return all(device.price_per_hour is not None for device in self.devices)

    @property
    def unit(self) -> str:
        """Return the unit of every cost on this cluster."""
        return self.currency if self.priced else "device-seconds"
