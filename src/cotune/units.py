"""Durations, counts and prices as people write them, and as they like to read them."""

from __future__ import annotations

import math
import re

from cotune.errors import UsageError

LONGEST_SECONDS = 1e11  # some 3,000 years: more is a slip, and sums of it are not finite
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_RATE = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*(k|m|g|t|)(?:bit|bit/s|bps)?", re.IGNORECASE)
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)", re.IGNORECASE)
_SLURM = re.compile(r"(?:(\d+)-)?(\d+):(\d{1,2})(?::(\d{1,2}))?")
_ISO = re.compile(
    r"P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


def seconds(text: str | float) -> float:
    """Return the seconds in '90', '90m', '1h30m', 'PT4H' or 'D-HH:MM:SS'; it must be positive."""
    value = _seconds(str(text).strip())
    if not 0 < value <= LONGEST_SECONDS:
        raise UsageError(f"a duration must be positive and at most {duration(LONGEST_SECONDS)}, not {text!r}")
    return value


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    if slurm := _SLURM.fullmatch(text):
        days, hours, minutes, rest = (int(part or 0) for part in slurm.groups())
        if slurm[1] is None and slurm[4] is None:  # Slurm reads two fields as MM:SS
            return hours * 60.0 + minutes
        return days * 86400.0 + hours * 3600.0 + minutes * 60.0 + rest
    if len(text) > 1 and (iso := _ISO.fullmatch(text)) and any(iso.groups()):
        factors = (604800.0, 86400.0, 3600.0, 60.0, 1.0)
        return sum(float(part or 0) * factor for part, factor in zip(iso.groups(), factors, strict=True))
    parts = _PARTS.findall(text)
    if parts and _PARTS.sub("", text).strip() == "":
        return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts)
    raise UsageError(f"cannot read {text!r} as a duration; write 90s, 45m, 1h30m, PT2H or 1-12:00:00")


def bits_per_second(text: str | float) -> float:
    """Return the bits per second in '100mbit', '1gbit', '2.5 Gbit/s' or a plain number; it must be positive."""
    found = _RATE.fullmatch(str(text).strip())
    value = float(found[1]) * _BITS[found[2].lower()] if found else 0.0
    if value <= 0:
        raise UsageError(f"cannot read {text!r} as the rate of a link; write 100mbit or 1gbit (bits per second)")
    return value


def duration(value: float) -> str:
    """Return seconds in words, with as many digits as they deserve."""
    if not math.isfinite(value):
        return "never"
    if value < 60:
        return f"{value:.3g} s"
    minutes, left = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {left:02d} s"


def counted(count: float, what: str) -> str:
    """Return how many there are of something: 1 epoch, 2 epochs, 0.25 epochs."""
    shown = str(int(count)) if count == int(count) else f"{count:.3g}"
    return f"{shown} {what}{'' if count == 1 else 's'}"


def short_duration(value: float) -> str:
    """Return seconds in words, small ones in milliseconds or microseconds."""
    if 0 < value < 1e-3:
        return f"{value * 1e6:.3g} us"
    return f"{value * 1e3:.3g} ms" if 0 < value < 1 else duration(value)


def gibibytes(value: float) -> str:
    """Return bytes in GiB, small ones in MiB."""
    return f"{value / 2**30:.3g} GiB" if value >= 2**30 else f"{value / 2**20:.3g} MiB"


def number(value: float, digits: int = 4) -> str:
    """Return a number with some significant digits and no exponent for everyday sizes."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-4 else f"{value:.2e}"
