from __future__ import annotations

from dataclasses import dataclass, field, replace

from cotune.predict.fits import fit_accuracy
from cotune.predict.predictors.curve import Curve
from cotune.types import Evaluation
from predict.worlds import JOB, trained


def test_the_same_evaluations_are_fitted_once_whatever_the_names_and_seconds_of_samples() -> None:
    samples = trained([16, 64])
    renamed = [
        replace(sample, id="other", seconds=9.0, curve=tuple(replace(point, seconds=7.0) for point in sample.curve))
        for sample in samples
    ]
    assert fit_accuracy(Curve(), JOB, samples) is fit_accuracy(Curve(), JOB, renamed)


def test_another_evaluation_setting_or_direction_is_another_fit() -> None:
    samples = trained([16, 64])
    first = fit_accuracy(Curve(), JOB, samples)
    longer = [replace(samples[0], curve=(*samples[0].curve, Evaluation(99.0, 0.9, 0.0))), samples[1]]
    assert fit_accuracy(Curve(), JOB, longer) is not first
    assert fit_accuracy(Curve(collapse=0.5), JOB, samples) is not first
    assert fit_accuracy(Curve(), replace(JOB, better="lower"), samples) is not first


def test_a_predictor_whose_settings_may_change_is_asked_each_time() -> None:
    @dataclass
    class Changing:
        collapse: float = 0.25
        asked: list[float] = field(default_factory=list)

        def fit_accuracy(self, job: object, samples: object) -> object:  # noqa: ARG002
            self.asked.append(self.collapse)
            return object()

    changing, samples = Changing(), trained([16, 64])
    fit_accuracy(changing, JOB, samples)  # type: ignore[arg-type]
    changing.collapse = 0.5
    fit_accuracy(changing, JOB, samples)  # type: ignore[arg-type]
    assert changing.asked == [0.25, 0.5]
