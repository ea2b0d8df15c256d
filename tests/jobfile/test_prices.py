"""What devices cost: the list, and job files that name a price or none."""

from __future__ import annotations

import datetime
from pathlib import Path

from cotune.jobfile import settings as job_settings
from cotune.jobfile.prices import lookup, shipped


def test_every_listed_price_has_a_source_and_a_date_that_has_passed() -> None:
    for price in shipped():
        assert price.source.startswith("https://")
        assert datetime.date(2026, 1, 1) <= price.date <= datetime.date.today()
        assert price.price_per_hour > 0
        assert price.device == price.device.lower()


def test_a_device_without_a_price_gets_the_cheapest_of_the_list() -> None:
    a100 = lookup("A100", "USD")
    assert a100 is not None
    assert a100.price_per_hour == min(price.price_per_hour for price in shipped() if price.device == "a100")
    assert lookup("a100", "EUR") is None
    assert lookup("abacus", "USD") is None


def settings(folder: Path, devices: str) -> job_settings.Settings:
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
