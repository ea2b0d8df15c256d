"""What devices cost: the list, a user's own prices, and job files that name none."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from cli.jobs import cotune
from cotune.errors import InvalidFile, NotFound
from cotune.jobfile import settings as job_settings
from cotune.jobfile.prices import Price, imported, keep, lookup, read, shipped
from cotune.types import Config
from interop.plans import planned

CATALOGUE = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice,AvailabilityZone
g6.xlarge,L4,1,4,16,0.8048,us-east-1,,0.3,us-east-1a
g6.12xlarge,L4,4,48,192,4.6016,us-east-1,,,us-east-1a
g6.xlarge,L4,1,4,16,0.9,eu-west-1,,0.2,eu-west-1a
m5.large,,,2,8,0.096,us-east-1,,0.03,us-east-1a
p4d.24xlarge,A100,8,96,1152,21.9576,us-east-1,,,us-east-1b
"""


def test_every_listed_price_has_a_source_and_a_date_that_has_passed() -> None:
    for price in shipped():
        assert price.source.startswith("https://")
        assert datetime.date(2026, 1, 1) <= price.date <= datetime.date.today()
        assert price.price_per_hour > 0
        assert price.device == price.device.lower()


def test_a_device_without_a_price_gets_the_cheapest_that_is_known(tmp_path: Path) -> None:
    a100 = lookup("A100", "USD", tmp_path)
    assert a100 is not None
    assert a100.price_per_hour == min(price.price_per_hour for price in shipped() if price.device == "a100")
    assert lookup("a100", "EUR", tmp_path) is None
    assert lookup("abacus", "USD", tmp_path) is None


def test_imported_prices_go_before_the_list_and_newer_ones_replace_them(tmp_path: Path) -> None:
    day = datetime.date(2026, 11, 1)
    keep(tmp_path, [Price("a100", 9.0, day, "contract", "ours"), Price("tpu", 1.0, day, "contract")])
    keep(tmp_path, [Price("a100", 8.0, day, "contract", "ours")])
    assert len(imported(tmp_path)) == 2
    found = lookup("a100", "USD", tmp_path)
    assert found == Price("a100", 8.0, day, "contract", "ours")
    assert str(found) == "8 USD an hour at ours, contract, 2026-11-01"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("own.csv", "device,price_per_hour,cloud\nA100,1.5,cellar\nt4,0.2,\n"),
        (
            "own.yaml",
            "prices:\n- {device: A100, price_per_hour: 1.5, cloud: cellar}\n- {device: t4, price_per_hour: 0.2}\n",
        ),
    ],
)
def test_own_prices_are_read_and_have_the_source_and_day_of_their_file(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text)
    first, second = read(file)
    assert (first.device, first.price_per_hour, first.cloud, first.source) == ("a100", 1.5, "cellar", str(file))
    assert second.date == datetime.datetime.now(datetime.UTC).date()


def test_a_catalogue_of_skypilot_gives_the_cheapest_device_of_each_kind(tmp_path: Path) -> None:
    (tmp_path / "aws").mkdir()
    (tmp_path / "aws" / "vms.csv").write_text(CATALOGUE)
    a100, l4 = read(tmp_path)
    assert (a100.device, a100.price_per_hour, a100.per_node) == ("a100", pytest.approx(2.7447), 8)
    assert (l4.device, l4.price_per_hour, l4.cloud) == ("l4", 0.8048, "aws g6.xlarge us-east-1")
    (spot,) = read(tmp_path, spot=True)
    assert (spot.price_per_hour, spot.cloud) == (0.2, "aws spot g6.xlarge eu-west-1")


@pytest.mark.parametrize(
    ("name", "text", "error", "words"),
    [
        ("a.csv", "name,cost\nA100,1\n", InvalidFile, "price 1: device: .*a row has device and price_per_hour"),
        ("a.csv", "device,price_per_hour\na100,cheap\n", InvalidFile, "price 1: price_per_hour: .*number"),
        ("a.csv", "device,price_per_hour\na100,-1\n", InvalidFile, "cannot cost -1"),
        ("a.csv", "", InvalidFile, "holds no prices"),
        ("a.yaml", "prices: [", InvalidFile, "not valid YAML"),
        ("a.yaml", "price: 3", InvalidFile, "expected `prices:`"),
        ("none/a.csv", None, NotFound, "no file"),
        (".", None, NotFound, r"holds no vms\.csv"),
    ],
)
def test_a_wrong_file_is_explained(
    name: str, text: str | None, error: type[Exception], words: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(error, match=words):
        read(tmp_path / name)


def settings(folder: Path, devices: str) -> job_settings.Settings:
    (folder / ".cotune").mkdir(exist_ok=True)
    return job_settings.loads(f"devices: {devices}", {}, "x", folder)


def test_a_job_file_gets_the_price_with_its_source_unless_it_says_none(tmp_path: Path) -> None:
    listed, cpu = settings(tmp_path, "{A100: {per_node: 8}, cpu: {}}").cluster.devices
    assert listed.price_per_hour == 1.99
    assert listed.price_source == "1.99 USD an hour at lambda, https://lambda.ai/instances, 2026-09-20"
    assert (cpu.price_per_hour, cpu.price_source) == (None, "")
    (given,) = settings(tmp_path, "{a100: {price_per_hour: 5}}").cluster.devices
    assert (given.price_per_hour, given.price_source) == (5.0, "")
    (none,) = settings(tmp_path, "{a100: {price_per_hour: none}}").cluster.devices
    assert none.price_per_hour is None
    assert settings(tmp_path, "{a100: {price_per_hour: none}}").cluster.unit == "device-seconds"


def test_the_verb_imports_and_lists(tmp_path: Path) -> None:
    planned(tmp_path, "name: x\ndevices: {l4: {}}\n", chosen=Config.data_parallel(1, 1, "l4"))
    (tmp_path / "vms.csv").write_text(CATALOGUE)
    done = cotune(tmp_path, "prices", "import", "vms.csv")
    assert done.code == 0, done.err
    assert "2 prices of 2 devices" in done.out
    rows = cotune(tmp_path, "prices", "list", "--json").json["prices"]
    assert [row["price_per_hour"] for row in rows if row["device"] == "a100"] == [pytest.approx(2.7447)]
    assert "h100" in {row["device"] for row in rows}
    (device,) = job_settings.load(tmp_path / "cotune.yaml", {}).cluster.devices
    assert device.price_per_hour == 0.8048
    missing = cotune(tmp_path, "prices", "list", "h1000")
    assert missing.code == 3
    assert "did you mean 'h100'?" in missing.err
    wrong = cotune(tmp_path, "prices", "import", "cotune.yaml")
    assert wrong.code == 4
