from __future__ import annotations

import numpy as np

from cotune.modelling.layouts.layout import LayoutRows
from cotune.modelling.layouts.predictor import LayoutLearner
from cotune.modelling.layouts.priors import LayoutPriors
from cotune.modelling.layouts.setting import Transformer
from modelling.layouts.settings import LARGE, SMALL, lawful_rows

ONE_B = Transformer(16, 2048, 32, 32, 8192, 131_072, 4096, tied=True)
EIGHT_B = Transformer(32, 4096, 32, 32, 14_336, 131_072, 4096)


def test_a_model_is_left_out_of_its_own_prior() -> None:
    assert LayoutPriors.measured_elsewhere(ONE_B).models == ("8B",)
    assert LayoutPriors.measured_elsewhere(EIGHT_B).models == ("1B",)
    assert LayoutPriors.measured_elsewhere(SMALL).models == ("1B", "8B")


def test_the_prior_of_a_stranger_is_the_mean_of_the_others_logarithms() -> None:
    one, eight = (LayoutPriors.measured_elsewhere(shape) for shape in (EIGHT_B, ONE_B))
    both = LayoutPriors.measured_elsewhere(SMALL)
    assert np.allclose(both.seconds.centre, (one.seconds.centre + eight.seconds.centre) / 2)
    assert np.allclose(both.memory.centre, (one.memory.centre + eight.memory.centre) / 2)


def test_a_decoder_on_cores_begins_with_the_others_and_not_with_itself() -> None:
    wider = Transformer(6, 96, 4, 4, 256, 256, 32)
    assert LayoutPriors.of_strange(wider, "cpu").models == ("deeper", "small")
    assert LayoutPriors.of_strange(SMALL, "cpu").models == ("deeper", "small", "wider")
    assert np.all(LayoutPriors.of_strange(SMALL, "cpu").seconds.spread <= LayoutPriors.physical().seconds.spread)


def test_a_gpu_of_which_nothing_is_known_begins_with_slices() -> None:
    of_slices = LayoutPriors.of_strange(SMALL, "my-gpu").seconds
    assert not np.allclose(of_slices.centre, LayoutPriors.of_strange(SMALL, "cpu").seconds.centre)


def test_rows_of_other_models_outweigh_the_prior() -> None:
    rows = lawful_rows(LARGE)
    nothing = rows.take(np.zeros(0, dtype=np.int64))

    def error(others: list[LayoutRows]) -> float:
        learner = LayoutLearner(others, LayoutPriors.measured_elsewhere(LARGE))
        seconds = learner.fit(nothing).predict(rows.layouts).seconds[:, 1]
        return float(np.median(np.abs(seconds[rows.ran] / rows.seconds[rows.ran] - 1)))

    assert error([lawful_rows(SMALL)]) < error([])
