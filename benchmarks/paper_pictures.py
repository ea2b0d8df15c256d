"""Figures 2 to 4 of the joint paper as pictures, from our recordings: `docs/images/paper-*.svg`.

    python benchmarks/paper_pictures.py [--into FOLDER] [--recordings DIR]

2a    accuracy that a batch reaches within one fixed time, a line for each number of workers
2b    cost to one target, the same way
3     accuracy over the global batch after one, half and all of the epochs
4     what predictors miss of seconds and accuracy, of the half that they did not see

One panel for each recording; numbers and halves are those of `benchmarks/paper.py` and `paper_savings.py`. Plain SVG:
lines over a logarithmic axis are all there is, and a reader may open a picture as text.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import paper_numbers
from paper import Workload, prediction
from paper_savings import SHARE

Line = Sequence[tuple[float, float]]
COLOURS = ("#3366cc", "#dc3912", "#ff9900", "#109618", "#990099", "#0099c6", "#dd4477", "#66aa00")
GREY = "#808080"  # reads on light and on dark pages
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 190, 46, 40, 30
ACROSS = 3


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes; `names` of a bar chart stand where x is a whole number."""

    title: str
    lines: Mapping[str, Line]
    names: Sequence[str] = ()

    def svg(self, left: float, top: float, colours: Mapping[str, str]) -> Iterator[str]:
        """Yield the elements of a panel whose corner is there."""
        points = [point for line in self.lines.values() for point in line]
        across, ys = np.array(points).T
        xs = across if self.names else np.log2(across)
        low, high = (0.0, float(ys.max()) * 1.05) if self.names else (float(ys.min()), float(ys.max()))
        span = (high - low) or 1.0
        room = float(np.ptp(xs)) or 1.0

        def place(x: float, y: float) -> tuple[float, float]:
            share = ((x if self.names else np.log2(x)) - xs.min() + 0.5 * bool(self.names)) / (room + bool(self.names))
            return left + float(share) * WIDTH, top + HEIGHT - (y - low) / span * HEIGHT

        yield _text(left, top - 8, self.title, anchor="start", bold=True)
        yield f'<rect x="{left:.0f}" y="{top:.0f}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="{GREY}"/>'
        for share in (0.0, 0.5, 1.0):
            level = low + share * span
            words = f"{level:,.0f}" if level >= 1000 else f"{level:.3g}"
            yield _text(left - 4, place(points[0][0], level)[1] + 4, words, anchor="end")
        for x in sorted({x for x, _ in points}):
            if self.names or float(np.log2(x)).is_integer():
                word = self.names[int(x)] if self.names else f"{x:.0f}"
                yield _text(place(x, low)[0], top + HEIGHT + 14, word)
        for number, (name, line) in enumerate(self.lines.items()):
            if self.names:
                wide = 60 / len(self.lines)
                shift = (number - len(self.lines) / 2) * wide
                yield from (_bar(*place(x, y), (shift, wide), top + HEIGHT, colours[name]) for x, y in line)
            else:
                yield _polyline([place(x, y) for x, y in sorted(line)], colours[name])


def _bar(x: float, y: float, sides: tuple[float, float], floor: float, colour: str) -> str:
    shift, wide = sides
    size = f'width="{wide - 2:.1f}" height="{floor - y:.1f}"'
    return f'<rect x="{x + shift:.1f}" y="{y:.1f}" {size} fill="{colour}"/>'


def _polyline(points: Sequence[tuple[float, float]], colour: str) -> str:
    ways = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{ways}" fill="none" stroke="{colour}" stroke-width="1.5"/>{dots}'


def _text(x: float, y: float, words: str, *, anchor: str = "middle", bold: bool = False, colour: str = GREY) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}"{weight}>{words}</text>'


def picture(panels: Sequence[Panel], axes: str) -> str:
    """Return an SVG of panels beside and below each other, with a legend and what the axes are."""
    names = sorted({name for panel in panels for name in panel.lines}, key=lambda name: (len(name), name))
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    rows = -(-len(panels) // ACROSS)
    wide, high = ACROSS * (WIDTH + LEFT + GAP), rows * (HEIGHT + TOP + GAP) + 34
    body = [_text(LEFT, high - 8, axes, anchor="start")]
    at = wide - GAP
    for name in reversed(names):
        body.append(_text(at, high - 8, name, anchor="end", bold=True, colour=colours[name]))
        at -= 7 * len(name) + 14
    for place, panel in enumerate(panels):
        down, across = divmod(place, ACROSS)
        body += panel.svg(across * (WIDTH + LEFT + GAP) + LEFT, down * (HEIGHT + TOP + GAP) + TOP, colours)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, *body, "</svg>\n"])


def in_a_time(work: Workload) -> Panel:
    """Return Figure 2a: accuracy within a quarter of the time that a middling config takes for all epochs."""
    seconds = SHARE * work.recording.last_epoch * float(np.median(work.truth.epoch_seconds))
    lines: dict[str, list[tuple[float, float]]] = {}
    for config in work.truth.space.configs():
        accuracy = work.accuracy(config, seconds)
        if accuracy is not None:
            lines.setdefault(_workers(config.workers), []).append((config.batch_size, accuracy))
    return Panel(f"{work.name}: accuracy in {seconds:.3g} s", lines)


def cost_to_target(work: Workload) -> Panel:
    """Return Figure 2b: worker-seconds to the target of `paper.py figures`."""
    target = work.truth.targets[-2]
    lines: dict[str, list[tuple[float, float]]] = {}
    for config in work.truth.space.configs():
        seconds = work.seconds_to(config, target)
        if np.isfinite(seconds):
            lines.setdefault(_workers(config.workers), []).append((config.batch_size, seconds * config.workers))
    return Panel(f"{work.name}: cost to {target:.3g}", lines)


def after_epochs(work: Workload) -> Panel:
    """Return Figure 3: accuracy over the global batch after some epochs."""
    batches, last = sorted(work.truth.recording.curves.get(None, {})), work.recording.last_epoch
    lines = {
        words: [(batch, float(work.median_curve(None, batch)[epoch - 1])) for batch in batches]
        for words, epoch in (("first epoch", 1), ("half", last // 2), ("all epochs", last))
    }
    return Panel(f"{work.name}: accuracy", lines)


def missed(work: Workload) -> Panel:
    """Return Figure 4: per cent that predictors miss of the other half."""
    rows = [line.split(" | ") for line in "".join(prediction(work)).splitlines()[2:-1]]
    lines = {
        row[0].removeprefix("| "): [
            (place, float(cell.rstrip("% |"))) for place, cell in enumerate((row[2], row[4])) if cell[0].isdigit()
        ]
        for row in rows
    }
    return Panel(f"{work.name}: % missed", lines, ("seconds", "accuracy"))


def _workers(count: int) -> str:
    return f"{count} workers" if count > 1 else "1 worker"


FIGURES = {
    "paper-figure-2a": (in_a_time, "over the batch of a worker"),
    "paper-figure-2b": (cost_to_target, "worker-seconds over the batch of a worker"),
    "paper-figure-3": (after_epochs, "over the global batch"),
    "paper-figure-4": (missed, "the half that was not seen"),
}


def main() -> None:
    """Write the pictures."""
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=root / "docs" / "images")
    parser.add_argument("--recordings", type=Path, default=root / "recordings")
    asked = parser.parse_args()
    works = [Workload.of(job.parent) for job in sorted(asked.recordings.glob("*/job.yaml"))]
    works = [work for work in works if work.paper in paper_numbers.ERRORS]
    for name, (panel, axes) in FIGURES.items():
        file = asked.into / f"{name}.svg"
        file.write_text(picture([panel(work) for work in works], axes))
        print(f"{file} {file.stat().st_size // 1024} KB", flush=True)


if __name__ == "__main__":
    main()
