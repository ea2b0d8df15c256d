"""The best layouts of all that are right, and why: the law picks a short list of everything, forecasts order it.

The reason names the parts of a step: computing, collectives of tensor parallelism, waiting for the host, the pipeline's
bubble, what is done once a step (gradients, optimiser); and what is given up against the layouts that were not chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotune.modelling.layouts.choosing import FLOOR, expected_scores
from cotune.modelling.layouts.layout import Layout, Layouts
from cotune.modelling.layouts.memory import p_counted
from cotune.modelling.layouts.predictor import LayoutPredictor
from cotune.modelling.layouts.seconds import count_terms, step_parts
from cotune.types import Floats, Ints

_SHORT_LIST = 2000
PART_WORDS = {
    "compute": "computing",
    "collectives": "collectives of tensor parallelism and sends",
    "waiting": "waiting for the host's launches or gathered parameters",
    "bubble": "the pipeline's bubble",
    "once": "gradients and the optimiser",
}
PARTS = tuple(PART_WORDS)


@dataclass(frozen=True, slots=True)
class RankedLayout:
    """A layout with its forecast: low, mid, high of seconds and GiB, P(fits), and the shares of its step."""

    layout: Layout
    seconds: tuple[float, float, float]
    gib: tuple[float, float, float]
    p_fits: float
    tokens_per_s_per_gpu: float
    shares: dict[str, float]


def rank_layouts(predictor: LayoutPredictor, layouts: Layouts, top: int) -> list[RankedLayout]:
    """Return the best layouts, the best first; empty where none should run."""
    short = layouts.take(_short_list(predictor, layouts))
    if not len(short):
        return []
    forecasts = predictor.predict(short)
    order = np.argsort(-expected_scores(short, forecasts), kind="stable")
    order = order[forecasts.p_fits[order] >= FLOOR][:top]
    parts = step_parts(predictor.seconds_coefficients, count_terms(short.take(order), predictor.setting))
    tokens = short.global_batch * float(predictor.setting.model.seq_len) / short.gpus
    return [
        RankedLayout(
            layout=short[int(place)],
            seconds=_three(forecasts.seconds[place]),
            gib=_three(forecasts.gib[place]),
            p_fits=float(forecasts.p_fits[place]),
            tokens_per_s_per_gpu=float(tokens[place] / forecasts.seconds[place, 1]),
            shares={name: float(getattr(parts, name)[rank] / parts.total[rank]) for name in PARTS},
        )
        for rank, place in enumerate(order)
    ]


def _three(values: Floats) -> tuple[float, float, float]:
    low, mid, high = map(float, values)
    return low, mid, high


def _short_list(predictor: LayoutPredictor, layouts: Layouts) -> Ints:
    """Return the places of the layouts that the laws alone find fastest among those that should fit."""
    terms = count_terms(layouts, predictor.setting)
    law = step_parts(predictor.seconds_coefficients, terms).total / layouts.global_batch
    fits = p_counted(predictor.memory_coefficients, layouts, predictor.setting) >= FLOOR / 2
    return np.asarray(np.argsort(np.where(fits, law, np.inf), kind="stable")[:_SHORT_LIST])


def largest_parts(shares: dict[str, float]) -> str:
    """Return in words what most of a step is spent on."""
    largest = sorted(shares, key=lambda name: -shares[name])[:3]
    return ", ".join(f"{shares[name]:.0%} {PART_WORDS[name]}" for name in largest if shares[name] >= 0.005)


def reason(ranked: list[RankedLayout]) -> str:
    """Return why the first stands first: where its step goes, and what the next unlike layout would cost."""
    best = ranked[0]
    words = f"{best.layout}: of {best.seconds[1]:.3g} s a step {largest_parts(best.shares)}; {best.gib[1]:.0f} GiB"
    degrees = (best.layout.tp, best.layout.pp)
    other = next((one for one in ranked[1:] if (one.layout.tp, one.layout.pp) != degrees), None)
    if other is None:
        return words
    more = {name: other.shares[name] * other.seconds[1] - best.shares[name] * best.seconds[1] for name in PARTS}
    worst = max(more, key=lambda name: more[name])
    slower = other.seconds[1] / best.seconds[1] - 1
    there = f"tp {other.layout.tp} x pp {other.layout.pp} is {slower:+.1%} in seconds"
    return f"{words}. {there}, most of it {PART_WORDS[worst]}"
