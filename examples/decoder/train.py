"""Train a Llama-like language model in any layout that is right, alone, under torchrun or under cotune.

    torchrun --nproc-per-node 4 train.py --model config.json --tp 2 --pp 2 --accumulate 4
    cotune profile --budget 5m        # with the cotune.yaml beside it; then plan, run

dp = workers / (tp x pp); global batch = dp x micro-batch x accumulate. All layouts of one global batch see the same
sequences in the same step and begin with the same weights, so their losses differ by rounding alone.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import checkpoint
import cotune
import data
from cotune.callbacks.together import Keeper, folder, resumes
from cotune.workloads.workers import Pulse, Workers, join, leave
from model import Shape
from spread import SCHEDULES, Layout, parameter_groups, require_right, spread, usual_schedule


@dataclass(frozen=True)
class DecoderFlags:
    """What the command line asks for."""

    model: Path
    sequence: int
    text: Path | None
    tp: int
    pp: int
    shard: int
    micro_batch: int
    accumulate: int
    recompute: int
    schedule: str | None
    steps: int
    lr: float
    seed: int
    device: str
    threads: int | None
    every: int
    save_every: int

    def layout(self, workers: int) -> Layout:
        """Return the layout of a number of workers."""
        dp = max(workers // (self.tp * self.pp), 1)
        shard = self.shard if dp > 1 else 0
        return Layout(dp, self.tp, self.pp, shard, self.micro_batch, self.accumulate, self.recompute)


class DecoderTrainer:
    """A worker's part of a model, its optimiser, and where the training stands."""

    def __init__(self, flags: DecoderFlags, workers: Workers) -> None:
        self.flags, self.workers = flags, workers
        shape, layout = Shape.read(flags.model), flags.layout(workers.count)
        schedule = flags.schedule or usual_schedule(layout)
        require_right(layout, shape, schedule, workers.count)
        self.layout = layout
        made_up = data.MadeUp(shape.vocab, flags.seed)
        self.source = data.Text.read(flags.text, shape.vocab, flags.sequence) if flags.text else made_up
        self.model = spread(shape, layout, schedule, workers=workers, seed=flags.seed, loss=_loss)
        self.parts = [(one, torch.optim.AdamW(parameter_groups(one), lr=flags.lr)) for one in self.model.stages]
        before = resumes()
        self.step = checkpoint.restore(before, self.parts) if before else 0
        self.pulse, self.keeper = Pulse(workers), Keeper()
        self._losses: list[Tensor] = []

    @property
    def tokens(self) -> int:
        return self.step * self.layout.global_batch * self.flags.sequence

    def run(self) -> None:
        """Train until the steps are done or cotune has had enough."""
        while self.step < self.flags.steps:
            self._step()
            beat, reports = self.pulse.due(), self.step % self.flags.every == 0 or self.step == self.flags.steps
            if beat or reports:
                self.workers.settle()
            stop = self._report() if reports else beat and cotune.report(step=self.step, tokens=self.tokens)
            enough, due = self.pulse.agree_on(stop, self.keeper.due) if beat else (False, False)
            if enough:
                break
            if (due or self.step % self.flags.save_every == 0) and self.step < self.flags.steps:
                self._save()
        self._save()

    def _save(self) -> None:
        if folder() is None:
            return
        seconds = self.keeper.keep(lambda into: checkpoint.save(into, self.step, self.parts))
        cotune.report(step=self.step, tokens=self.tokens, checkpoint=seconds)

    def _step(self) -> None:
        flags, layout = self.flags, self.layout
        share = layout.micro_batch * layout.accumulate
        first = self.step * layout.global_batch + self.model.replica * share
        tokens, labels = data.batch(self.source, first, share, flags.sequence)
        for _, optimiser in self.parts:
            optimiser.zero_grad()
        loss = self.model.backward(tokens.to(self.workers.device), labels.to(self.workers.device))
        for _, optimiser in self.parts:
            optimiser.step()
        if loss is not None:
            self._losses.append(loss)
        self.step += 1

    def _report(self) -> bool:
        """Report the mean loss since the last time; return whether to stop."""
        loss = self._mean_loss()
        if self.workers.rank == 0:
            print(f"step {self.step}  tokens {self.tokens}  loss {loss:.7f}", flush=True)
        return cotune.report(step=self.step, tokens=self.tokens, loss=loss)

    def _mean_loss(self) -> float:
        """Return the mean loss of the steps since the last time, over all replicas."""
        mine = torch.stack(self._losses).double().sum().item() if self._losses else 0.0
        total, count = self.workers.total(torch.tensor([mine, float(len(self._losses))], dtype=torch.float64))
        self._losses = []
        return total / count


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the command line says and return the exit code."""
    try:
        train(parse(arguments))
    except (OSError, ValueError) as error:
        print(f"decoder: {error}", file=sys.stderr, flush=True)
        return 2
    return 0


def train(flags: DecoderFlags) -> None:
    """Train to the end."""
    if flags.threads is not None:
        torch.set_num_threads(flags.threads)
    # FSDP2 warns of in-place operations on what a stage returns; there are none.
    warnings.filterwarnings("ignore", message=".*returned a view tensor", category=UserWarning)
    workers = join(flags.device)
    trainer = DecoderTrainer(flags, workers)
    if workers.rank == 0:
        print(f"{trainer.layout}: global batch {trainer.layout.global_batch}, {workers.device}", flush=True)
    cotune.report(step=trainer.step, tokens=trainer.tokens)
    trainer.run()
    leave()


def parse(arguments: Sequence[str] | None = None) -> DecoderFlags:
    """Return the settings on the command line."""
    parser = argparse.ArgumentParser(
        description="Train a Llama-like language model in any layout that is right.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    flag = parser.add_argument
    flag("--model", type=Path, required=True, help="a Hugging Face config.json of a model like Llama")
    flag("--sequence", type=int, default=128, help="tokens of a sequence")
    flag("--text", type=Path, help="a file to train on, byte by byte; made-up tokens without it")
    flag("--tp", type=int, default=1, help="workers that share each tensor")
    flag("--pp", type=int, default=1, help="stages of a pipeline")
    flag("--shard", type=int, choices=(0, 1, 2, 3), default=0, help="ZeRO stage: 0 none, 2 gradients, 3 parameters too")
    flag("--micro-batch", type=int, default=1, help="sequences that a replica takes at once")
    flag("--accumulate", type=int, default=1, help="micro-batches of a replica before each step")
    flag("--recompute", type=int, choices=(0, 1), default=0, help="1 computes activations twice, and stores none")
    flag("--schedule", choices=tuple(SCHEDULES), help="order of micro-batches in a pipeline; 1f1b where it can")
    flag("--steps", type=int, default=100, help="steps in all, those before a resumed checkpoint included")
    flag("--lr", type=float, default=1e-3, help="learning rate of AdamW")
    flag("--seed", type=int, default=0, help="of the first weights and of made-up tokens")
    flag("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto takes a GPU if there is one")
    flag("--threads", type=int, help="CPU threads of this worker; torch decides if not given")
    flag("--every", type=int, default=10, help="steps from one loss printed to the next")
    flag("--save-every", type=int, default=500, help="under cotune, steps from one checkpoint to the next")
    return DecoderFlags(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
