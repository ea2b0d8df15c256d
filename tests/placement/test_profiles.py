"""A broken profile is refused with the field and the reason; a good one is read."""

from __future__ import annotations

import copy
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotune.errors import InvalidFile, NotFound
from cotune.placement.profiles import parse, read

GOOD: dict[str, Any] = {
    "batch": 1024,
    "types": [
        {"name": "cpu", "price_per_hour": 0.04, "limit": 480},
        {"name": "v100", "price_per_hour": 2.42, "limit": None},
    ],
    "layers": [
        {
            "name": name,
            "kind": "fc",
            "compute": [0.4, None if name == "embedding" else 0.01],
            "compute_parallel": [0.98, 0.9],
            "sync": [0.1, 0.02],
            "sync_parallel": [0.5, 0.5],
            "cut_before": [0.01, 0.01],
        }
        for name in ("embedding", "fc1", "fc2")
    ],
}


def broken(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    data = copy.deepcopy(GOOD)
    change(data)
    return data


def layer(place: int, **fields: object) -> Callable[[dict[str, Any]], object]:
    return lambda data: data["layers"][place].update(fields)


BROKEN: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (layer(1, compute=[0.4]), r"layers\[1\]\.compute: 1 numbers for 2 types; none for v100"),
    (layer(1, compute=[0.4, -2.0]), r"layers\[1\]\.compute\[1\]: must be greater than or equal to 0, not -2\.0"),
    (layer(2, sync=[float("nan"), 0.1]), r"layers\[2\]\.sync\[0\]: must be a finite number, not nan"),
    (layer(2, cut_before=[float("inf"), 0.1]), r"layers\[2\]\.cut_before\[0\]: must be a finite number, not inf"),
    (layer(0, compute_parallel=[1.5, 0.5]), r"layers\[0\]\.compute_parallel\[0\]: must be less than or equal to 1"),
    (layer(0, sync_parallel=[0.5, -0.1]), r"layers\[0\]\.sync_parallel\[1\]: must be greater than or equal to 0"),
    (layer(1, sync=[0.1, None]), r"layers\[1\]\.sync\[1\]: is null although compute says that the layer fits v100"),
    (
        layer(1, compute_paralel=[1, 1]),
        r"layers\[1\].*unknown field 'compute_paralel'; did you mean 'compute_parallel'",
    ),
    (layer(1, compute=["a", 1.0]), r"layers\[1\]\.compute\[0\]: must be a valid number, not 'a'"),
    (layer(1, compute_fixed=[0.5, 0.0]), r"layers\[1\]\.compute_fixed\[0\]: 0\.5 is more than compute 0\.4"),
    (lambda data: data["layers"][1].pop("compute"), r"layers\[1\]\.compute: is missing"),
    (lambda data: data["layers"][1].pop("compute_parallel"), r"layers\[1\]\.compute_parallel: is missing"),
    (lambda data: data["types"][0].update(limit=0), r"types\[0\]\.limit: must be greater than or equal to 1, not 0"),
    (lambda data: data["types"][0].update(limit=True), r"types\[0\]\.limit: must be a valid integer"),
    (lambda data: data["types"][0].update(price_per_hour=-1), r"types\[0\]\.price_per_hour: must be greater"),
    (lambda data: data["types"][0].pop("price_per_hour"), r"types\[0\]\.price_per_hour: is missing"),
    (lambda data: data["types"][1].update(name="cpu"), r"types\[1\]\.name: 'cpu' is given twice"),
    (lambda data: data.pop("types"), r"types: is missing"),
    (lambda data: data.update(types=[]), r"types: must have at least 1 item"),
    (lambda data: data.update(batch=0), r"batch: must be greater than 0, not 0"),
    (lambda data: data.update(layers=[]), r"layers: there are none"),
    (lambda data: data.update(weight_bytes=[1.0]), r"weight_bytes: 1 numbers for 3 layers"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_a_broken_profile_is_refused_by_field_and_reason(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(InvalidFile, match=message):
        parse(broken(change))


def row(**fields: object) -> dict[str, object]:
    return {"type": "cpu", "first": 0, "last": 0, "units": 1, "seconds": 1.0} | fields


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [row(type="cpux")],
            r"stage_seconds\[0\]\.type: no type named 'cpux'; there are cpu, v100; did you mean 'cpu'",
        ),
        ([row(first=2, last=1)], r"stage_seconds\[0\]\.last: 1 is before first 2"),
        ([row(last=3)], r"stage_seconds\[0\]\.last: 3 is past the last layer 2"),
        ([row(), row()], r"stage_seconds\[1\]: cpu 0\.\.0 on 1 units is given twice"),
        ([row(seconds=-1)], r"stage_seconds\[0\]\.seconds: must be greater than or equal to 0"),
        ([row(seconds=0)], r"stage_seconds\[0\]\.seconds: must be positive"),
        ([row(units=0)], r"stage_seconds\[0\]\.units: must be greater than or equal to 1"),
    ],
)
def test_a_broken_table_is_refused_by_field_and_reason(rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        parse(GOOD | {"stage_seconds": rows})


def test_a_good_profile_is_read_and_notes_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(GOOD | {"measured_on": "a Tuesday"}))
    profile = read(path)
    assert profile.depth == 3
    assert profile.types[1].limit is None


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"x"', "\x00"])
def test_what_is_no_profile_is_an_invalid_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(InvalidFile, match=r"profile\.json"):
        read(path)


def test_a_profile_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no profile at"):
        read(tmp_path / "none.json")


def test_numbers_and_sizes_may_be_written_as_other_tools_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = copy.deepcopy(GOOD) | {"input_bytes": 300, "weight_bytes": [1, 2, 3], "stage_seconds": []}
    data["types"][0]["limit"] = 480.0
    text = ("\ufeff" + json.dumps(data)).encode()
    (tmp_path / "profile.json").write_bytes(text)
    found = read(tmp_path / "profile.json")
    assert (found.types, found.layers) == (parse(GOOD).types, parse(GOOD).layers)
    assert (found.input_bytes, found.stage_seconds) == ([100.0] * 3, None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert read(Path("-")) == found


def by_hand() -> dict[str, Any]:
    """The example of the documentation."""
    page = (Path(__file__).parents[2] / "docs" / "placement.md").read_text(encoding="utf-8")
    told: dict[str, Any] = json.loads(page.partition('```json title="profile.json"')[2].partition("```")[0])
    return told


def test_numbers_by_the_names_of_types_are_lists_in_their_order() -> None:
    profile = parse(by_hand())
    assert profile.layers[0].compute == [0.02, 0.20]
    assert profile.layers[1].compute_parallel == [0.95, 0.95]


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        ({"cpu": 0.02}, "layers[0].compute: has no number for v100"),
        ({"cpu": 0.02, "v100": 0.2, "v101": 1.0}, "layers[0].compute: no type is named 'v101'; did you mean 'v100'?"),
        (0.02, "layers[0].compute: must be a list, one number per type, not 0.02"),
    ],
)
def test_numbers_that_are_not_of_the_types_are_named(compute: object, words: str) -> None:
    told = by_hand()
    told["layers"][0]["compute"] = compute
    with pytest.raises(InvalidFile) as wrong:
        parse(told)
    assert words in str(wrong.value)
