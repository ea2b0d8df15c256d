"""What is trained, and how it counts its progress."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cotune.types.config import Config
from cotune.types.sample import Sample

_RULES = {"linear": 1.0, "sqrt": 0.5, "fixed": 0.0}
Unit = Literal["epochs", "steps", "tokens"]
Framework = Literal["transformers", "lightning", "accelerate"]  # whose training loop a script runs
RateScaling = Literal["scaled", "fixed", "unknown"]  # whether the learning rate grows with the global batch
_SCHEDULE = re.compile(r"(\w+)(?:\(([\d., ]*?)(?:, *factor=([\d.]+))?\))?(?: warmup\(([\d.]+)\))?")
_SEED = re.compile(r"[\w.-]+=\{seed\}")
RECORDED = "recorded"  # the engine that replays a recording
STOP_GRACE = 600.0  # seconds for a job to save what it saves at its end, once there is nothing left to train


def _seedless(command: Sequence[str]) -> list[str]:
    """Return the words of a command without the flag that hands on the seed: `--seed {seed}`, `seed={seed}`."""
    words: list[str] = []
    for word in command:
        if word == "{seed}" and words and words[-1].startswith("-"):
            words.pop()
        elif not _SEED.fullmatch(word):
            words.append(word)
    return words


def rule_power(rule: str) -> float:
    """Return the power of the global batch that a learning-rate rule is: linear, sqrt, fixed or power(0.3)."""
    if rule in _RULES:
        return _RULES[rule]
    said = re.fullmatch(r"power\(\s*(\d*\.?\d+)\s*\)", rule)
    if said is None or float(said[1]) > 1:
        raise ValueError("linear, sqrt, fixed or power(p) with p from 0 to 1, such as power(0.3)")
    return float(said[1])


class Schedule(NamedTuple):
    """How the learning rate goes over a run: `cosine`, `wsd(0.3)`, `step(30,60,80,factor=0.2) warmup(5)`.

    Milestones and a warm-up below 1 are shares of a run; others are counted as the job counts its progress.
    """

    kind: str
    numbers: tuple[float, ...] = ()  # the share over which wsd falls, or the milestones of step
    factor: float = 0.1  # of the rate, at each milestone
    warmup: float = 0.0

    @classmethod
    def read(cls, text: str) -> Schedule:
        """Return a schedule as written, or raise ValueError."""
        said = _SCHEDULE.fullmatch(text.strip())
        if said is not None:
            numbers = tuple(float(part) for part in (said[2] or "").split(",") if part.strip())
            found = cls(said[1], numbers, float(said[3] or 0.1), float(said[4] or 0))
            if found.is_possible:
                return found
        raise ValueError("constant, cosine, linear, one_cycle, wsd(0.3), step(30,60,80) or unknown")

    @property
    def is_possible(self) -> bool:
        """Return whether its numbers are shares and milestones that can be."""
        if self.kind == "wsd":
            return len(self.numbers) <= 1 and all(0 < share <= 1 for share in self.numbers)
        if self.kind == "step":
            rising = sorted({0.0, *self.numbers}) == [0.0, *self.numbers]
            return rising and 0 < self.factor < 1
        return not self.numbers and self.kind in ("constant", "cosine", "linear", "one_cycle", "unknown")

    @property
    def ends_with_run(self) -> bool:
        """Return whether the rate falls at the end of each run, so that a short run is not the start of a long one."""
        shares = not self.numbers or self.numbers[0] < 1
        return self.kind in ("cosine", "linear", "one_cycle", "wsd") or (self.kind == "step" and shares)

    def __str__(self) -> str:
        """Return it as `read` reads it."""
        numbers = [f"{number:g}" for number in self.numbers]
        numbers += [f"factor={self.factor:g}"] if self.kind == "step" and self.factor != 0.1 else []
        warmup = f" warmup({self.warmup:g})" if self.warmup else ""
        return self.kind + (f"({','.join(numbers)})" if numbers else "") + warmup


@dataclass(frozen=True, slots=True)
class LearningRate:
    """A learning rate measured at one global batch, and the rule that carries it to others."""

    at: float
    global_batch: int
    rule: str = "linear"

    def of(self, global_batch: int) -> float:
        """Return the rate for a global batch."""
        return float(self.at * (global_batch / self.global_batch) ** rule_power(self.rule))


@dataclass(frozen=True, slots=True)
class CountedModel:
    """What was counted of the model that a job names: who it is, and the memory of a step of b examples.

    `fixed_bytes` + `bytes_per_example` x b are parameters, gradients and optimiser state, and activations.
    """

    fingerprint: str
    fixed_bytes: float
    bytes_per_example: float


@dataclass(frozen=True, slots=True)
class ProgressUnit:
    """How a job counts its progress, which inside is in parts of `Job.examples` examples (`cotune.progress`).

    `parts` are in one epoch of the data, or in the whole training where no epoch is known. `sequence` is the tokens
    of one example.
    """

    unit: Unit = "epochs"
    parts: float = 1.0
    sequence: int | None = None
    epoch_known: bool = True


EPOCHS = ProgressUnit()


@dataclass(frozen=True, slots=True)
class LargeModel:
    """The model of a job whose layout is cotune's to choose: its shape (a config.json or a name), and its machines.

    `sequence` is the tokens of an example; `devices` are by name, with how many a node holds (0: nothing is said).
    """

    shape: str
    sequence: int
    devices: tuple[tuple[str, int], ...] = ()


class Recipe(NamedTuple):
    """The global batch, and the workers where accuracy depends on them too."""

    global_batch: int
    workers: int | None


@dataclass(frozen=True, slots=True)
class Job:
    """What is trained: a command with placeholders, its data and its metric.

    `where` names the engine, its settings and, for one on this machine, the host:
    seconds measured elsewhere are not this job's. `log` is (tool or "text", path): log files
    of the job's own to read instead of its output. `model` is known where the job names its model.
    `seeds` is how many runs of a recipe a recording holds: a run is judged by all of them.
    `large` is the model whose layout is chosen (`layout: auto`).
    `workers_matter` says that accuracy depends on the workers too, and not on the global batch alone.
    `schedule` is how its learning rate goes, as `Schedule` reads it, counted in parts; None where nothing is said.
    `framework` takes numbers as arguments of its own, and cotune's callback; `reads` are the numbers that the script
    takes from variables (`COTUNE_BATCH_SIZE`), and `workers` where they meet by other means than process groups.
    `scaling` says whether that rate grows with the global batch: at a fixed one large batches take many more epochs.
    """

    name: str
    command: tuple[str, ...] = ()
    examples: int | None = None
    metric: str = "accuracy"
    better: Literal["higher", "lower"] = "higher"
    lr: LearningRate | None = None
    pattern: str | None = None
    folder: str = "."
    env: tuple[tuple[str, str], ...] = ()
    where: str = ""
    log: tuple[str, str] | None = None
    model: CountedModel | None = None
    seeds: int = 1
    workers_matter: bool = False
    counting: ProgressUnit = EPOCHS
    schedule: str | None = None
    large: LargeModel | None = None
    scaling: RateScaling = "unknown"
    framework: Framework | None = None
    reads: tuple[str, ...] = ()

    def recipe(self, config: Config) -> Recipe:
        """Return what accuracy depends on in a config: two that share it learn alike."""
        return Recipe(config.global_batch, config.workers if self.workers_matter or not config.waits else None)

    @property
    def hears(self) -> bool:
        """Return whether it can know that it should stop: it calls cotune.report, and is not merely read."""
        return self.pattern is None and self.log is None

    @property
    def sign(self) -> int:
        """Return 1 where higher is better and -1 where lower is: sign x metric always rises."""
        return 1 if self.better == "higher" else -1

    def same_model(self, other: Job) -> bool:
        """Return whether both jobs name their model, and it counts the same."""
        return self.model is not None and other.model is not None and self.model.fingerprint == other.model.fingerprint

    def meets(self, target: float | None, accuracy: float | None) -> bool:
        """Return whether a value of the metric is as good as a target; False without either."""
        return target is not None and accuracy is not None and self.sign * accuracy >= self.sign * target

    def reached(self, target: float | None, sample: Sample) -> bool:
        """Return whether an evaluation of a sample is as good as a target."""
        return any(self.meets(target, point.accuracy) for point in sample.curve)

    @property
    def fingerprint(self) -> str:
        """Return what makes samples comparable: the command, its folder, data, metric, rate and engine.

        Whether the command hands on a seed changes nothing that is measured.
        """
        rate = (self.lr.at, self.lr.global_batch, self.lr.rule) if self.lr else None
        what = [_seedless(self.command), self.folder, self.examples, self.metric, self.better, rate, sorted(self.env)]
        facts = [*what, self.where, *([self.counting.parts] if self.counting.parts != 1 and not self.examples else [])]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
