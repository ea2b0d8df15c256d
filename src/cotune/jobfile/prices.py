"""What devices cost an hour, by whom, on which day and as read where.

A job file may name a device without a price; it then gets the cheapest that is known:

    imported by the user     `cotune prices import`, kept in the project's or the user's folder
    else the small list      prices.yaml beside this file

A price is always shown with its source and date, because prices move.
"""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from cotune.errors import InvalidFile, NotFound
from cotune.safety import yaml_text
from cotune.safety.regular import require_regular

FILE = "prices.yaml"
_CATALOGUE = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Region", "Price", "SpotPrice")


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


def shipped() -> tuple[Price, ...]:
    """Return the small list that comes with cotune."""
    text = files("cotune.jobfile").joinpath(FILE).read_text(encoding="utf-8")
    return _records(yaml.safe_load(text)["prices"], FILE)


def imported(folder: Path) -> tuple[Price, ...]:
    """Return what the user has imported into a folder."""
    path = folder / FILE
    return read(path) if path.is_file() else ()


def keep(folder: Path, new: Iterable[Price]) -> Path:
    """Add prices to those imported before; a new one replaces the old one of its device and cloud."""
    known = {(price.device, price.cloud): price for price in (*imported(folder), *new)}
    rows = [{name: value for name, value in asdict(known[key]).items() if value is not None} for key in sorted(known)]
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"prices": rows}, sort_keys=False, width=1000), encoding="utf-8")
    except OSError as error:
        raise InvalidFile(f"cannot keep prices in {path}: {error.strerror}") from None
    return path


def lookup(device: str, currency: str, folder: Path) -> Price | None:
    """Return the cheapest known price of a device; what the user imported goes before the list."""
    for known in (imported(folder), shipped()):
        found = [price for price in known if price.device == device.lower() and price.currency == currency]
        if found:
            return min(found, key=lambda price: price.price_per_hour)
    return None


def read(path: Path, *, spot: bool = False) -> tuple[Price, ...]:
    """Return the prices of a YAML or CSV file, or of SkyPilot's catalogues (a vms.csv, or a folder of them)."""
    if path.is_dir():
        catalogues = sorted(path.rglob("vms.csv"))
        if not catalogues:
            raise NotFound(f"{path} holds no vms.csv, as SkyPilot's catalogues are called")
        return tuple(price for file in catalogues for price in read(file, spot=spot))
    require_regular(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"cannot read {path}: {error}") from None
    day = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC).date()
    if path.suffix in (".yaml", ".yml"):
        return _records(_yaml(path, text), str(path), day)
    rows = csv.DictReader(io.StringIO(text))
    names = set(rows.fieldnames or ())
    if names >= set(_CATALOGUE):
        return _catalogue(rows, path, day, "SpotPrice" if spot else "Price")
    return _records([{key: value for key, value in row.items() if value} for row in rows], str(path), day)


def _yaml(path: Path, text: str) -> list[Any]:
    try:
        loaded = yaml_text.read(text)
    except yaml_text.NotYaml as error:
        line = f", line {error.line}" if error.line else ""
        raise InvalidFile(f"{path}{line} is not valid YAML: {error.problem}") from None
    rows = loaded.get("prices") if isinstance(loaded, dict) else loaded
    if not isinstance(rows, list):
        raise InvalidFile(f"{path}: expected `prices:` with one row for each device")
    return rows


def _records(rows: Iterable[Any], source: str, day: datetime.date | None = None) -> tuple[Price, ...]:
    """Return rows as prices; a row without a source or date has those of its file."""
    reader, found = TypeAdapter(Price), []
    for number, row in enumerate(rows, 1):
        given = {"source": source, "date": day, **row} if isinstance(row, Mapping) else row
        try:
            price = reader.validate_python(given)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InvalidFile(
                f"{source}: price {number}: {place}: {first['msg'].lower()}; a row has device and price_per_hour, "
                "and may have cloud, date, source, per_node and currency"
            ) from None
        if price.price_per_hour < 0:
            raise InvalidFile(f"{source}: price {number}: {price.device} cannot cost {price.price_per_hour:g}")
        found.append(replace(price, device=price.device.lower()))
    if not found:
        raise InvalidFile(f"{source} holds no prices")
    return tuple(found)


def _catalogue(rows: Iterable[Mapping[str, str]], path: Path, day: datetime.date, column: str) -> tuple[Price, ...]:
    """Return the cheapest instance of each accelerator, for one device of it."""
    best: dict[str, Price] = {}
    for row in rows:
        try:
            name, count, price = (
                row["AcceleratorName"],
                float(row["AcceleratorCount"] or 0),
                float(row[column] or "nan"),
            )
        except ValueError as error:
            raise InvalidFile(f"{path}: {error}") from None
        if not name or count < 1 or not price > 0:
            continue
        kind = "spot " if column == "SpotPrice" else ""
        where = f"{path.parent.name} {kind}{row['InstanceType']} {row['Region']}"
        each = Price(name.lower(), price / count, day, f"SkyPilot's catalogue {path.name}", where, int(count))
        if name not in best or each.price_per_hour < best[name].price_per_hour:
            best[name] = each
    if not best:
        raise InvalidFile(f"{path} holds no accelerator with a price")
    return tuple(best[name] for name in sorted(best))
