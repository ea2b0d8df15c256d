"""Train one of the ready-made networks: an ordinary data-parallel PyTorch script.

    python -m cotune.workloads.train --model lenet5 --data digits --batch-size 64 --epochs 3
    torchrun --nproc-per-node 2 -m cotune.workloads.train --batch-size 32
    cotune profile -- python -m cotune.workloads.train --batch-size {batch_size} --epochs {epochs} --lr {lr}

global batch = batch_size x accumulate x workers, and the gradient of a step is the mean
over all its examples, also in the last, smaller step of an epoch. Rates are used as given.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import cotune
from cotune.torch import agree, is_asynchronous
from cotune.worker.balance import Balancer
from cotune.workloads import batches, checkpoint
from cotune.workloads.checkpoint import Position
from cotune.workloads.data import SOURCES, Data, load
from cotune.workloads.models import MODELS, build, parameters
from cotune.workloads.program import exit_code, positive
from cotune.workloads.workers import Pulse, Workers, join, leave

_TEST_BATCH = 256


@dataclass(frozen=True, slots=True)
class TrainingFlags:
    """What the command line asks for."""

    model: str
    data: str
    batch_size: int
    accumulate: int
    epochs: int
    lr: float
    momentum: float
    weight_decay: float
    decay: float
    seed: int
    limit: int | None
    test_limit: int | None
    device: str
    threads: int | None
    balance: bool


class PartSeconds:
    """Seconds spent on each part of training since the last report."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to a term."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    @contextmanager
    def spent_on(self, name: str) -> Iterator[None]:
        """Add the time the block takes to a term."""
        began = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - began)

    def take(self) -> dict[str, float]:
        """Return the seconds so far and begin anew."""
        taken, self._seconds = self._seconds, {}
        return taken


class Trainer:
    """A model, its optimiser and its data on one worker."""

    def __init__(self, settings: TrainingFlags, data: Data, workers: Workers) -> None:
        self.settings = settings
        self.workers = workers
        self.data = data
        torch.manual_seed(settings.seed)
        self.model = build(settings.model, data.shape).to(workers.device)
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
        self.place = checkpoint.restore(self.model, self.optimiser, workers)
        self.parallel = workers.parallel(self.model, self.optimiser)
        self.terms = PartSeconds()
        self.asynchronous = is_asynchronous()
        # Asynchronous workers do not wait for each other in mid-epoch: each hears for itself that it should stop.
        self.pulse = Pulse(Workers(0, 1, workers.device) if self.asynchronous else workers)
        whole = settings.batch_size * settings.accumulate * workers.count
        self.balancer = Balancer(whole, workers.count) if settings.balance and workers.count > 1 else None
        self._computed: list[float] = []
        # A GPU works behind the script's back, so only a CPU shows when a step computes and when it waits.
        self._sees_waiting = workers.count == 1 or workers.device.type == "cpu"
        self._arithmetic_done = 0.0
        # The first layer's gradient is the last to be known; backward then only waits for the other workers.
        first = next(self.model.parameters())
        first.register_post_accumulate_grad_hook(self._note_arithmetic_done)  # type: ignore[no-untyped-call]

    @property
    def progress(self) -> float:
        """Return the epochs done, a begun one in part."""
        return self.place.epoch + self.place.seen / len(self.data.train)

    def run(self) -> None:
        """Train until the epochs are done or cotune has had enough."""
        while self.place.epoch < self.settings.epochs:
            began = time.perf_counter()
            seen_before = self.place.seen
            totals = self._epoch()
            if self.place.seen:  # told to stop in mid-epoch
                agree(self.model)
                self._save()
                return
            with self.terms.spent_on("evaluation"):
                loss, right, accuracy = self._evaluated(totals)
            seen = len(self.data.train) - seen_before
            loss, train_accuracy = loss / seen, right / seen
            self._save()
            if self.workers.rank == 0:
                print(
                    f"epoch {self.place.epoch}  loss {loss:.4f}  train accuracy {train_accuracy:.4f}  "
                    f"test accuracy {accuracy:.4f}  {time.perf_counter() - began:.2f} s",
                    flush=True,
                )
            terms = self.terms.take()
            stop = cotune.report(self.progress, accuracy, loss=loss, train_accuracy=train_accuracy, **terms)
            if self.pulse.agree(bool(self.workers.most(float(stop))[0])):
                return

    def _epoch(self) -> Tensor:
        """Train to the end of the epoch, or until told to stop; return the sum of losses and the right answers."""
        settings, workers, examples = self.settings, self.workers, len(self.data.train)
        epoch, seen = self.place.epoch, self.place.seen
        for group in self.optimiser.param_groups:
            group["lr"] = settings.lr * settings.decay**epoch
        self.model.train()
        totals = torch.zeros(2, dtype=torch.float64, device=workers.device)
        order = batches.order(examples, settings.seed, epoch).to(workers.device)
        shares = self.balancer.shares if self.balancer else None
        spread = (settings.batch_size, settings.accumulate, workers.rank, workers.count)
        for step in batches.steps(order[seen:], *spread, shares=shares):
            began = time.perf_counter()
            elsewhere = self._step(step, totals)
            seen += step.examples
            self.place = Position(epoch, seen) if seen < examples else Position(epoch + 1)
            beat = self.pulse.due()
            if beat or not self.place.seen:
                workers.settle()
            if self._sees_waiting:
                computed = time.perf_counter() - began - elsewhere
                self.terms.add("compute", computed)
                self._computed.append(computed)
            if beat and self.balancer:
                self._balance(self.balancer)
            if not (beat and self.place.seen):
                continue
            if self.pulse.agree(cotune.report(self.progress, **self.terms.take())):
                break
        if self.asynchronous:
            # One may have come to the end where another heard that it should stop: the least that was seen counts.
            done = self.place.epoch * examples + self.place.seen
            self.place = Position(*divmod(-int(workers.most(float(-done))[0]), examples))
        return totals

    def _step(self, step: batches.RankStep, totals: Tensor) -> float:
        """Take one step of the optimiser; return the seconds of it that were not arithmetic."""
        weight = 0.0 if step.idle else self.workers.count / step.examples
        if self.asynchronous and not step.idle:
            weight = 1 / sum(len(batch) for batch in step.batches)
        fetching = waiting = 0.0
        self.optimiser.zero_grad()
        for number, batch in enumerate(step.batches, start=1):
            began = time.perf_counter()
            inputs, labels = self.data.train.inputs[batch], self.data.train.labels[batch]
            fetching += time.perf_counter() - began
            with self._gradients_kept_back(number < len(step.batches)):
                outputs = self.parallel(inputs)
                loss = cross_entropy(outputs, labels, reduction="sum")
                torch.autograd.backward(loss * weight)
                waiting = time.perf_counter() - self._arithmetic_done
            if not step.idle:
                totals[0] += loss.detach()
                totals[1] += (outputs.argmax(1) == labels).sum()
        self.optimiser.step()
        self.terms.add("input", fetching)
        if self.workers.count == 1 or not self._sees_waiting:
            return fetching
        self.terms.add("communication", waiting)
        return fetching + waiting

    def _gradients_kept_back(self, kept_back: bool) -> AbstractContextManager[None]:
        """Return a context in which gradients add up on this worker alone, if they should."""
        if kept_back and isinstance(self.parallel, DistributedDataParallel):
            return self.parallel.no_sync()
        return nullcontext()

    @torch.no_grad()
    def _evaluated(self, totals: Tensor) -> tuple[float, float, float]:
        """Return the sum of losses, the right answers and the test accuracy, the same on every rank."""
        agree(self.model)
        self.workers.average(self.model)
        self.model.eval()
        test = self.data.test.share(self.workers.rank, self.workers.count)
        right = totals.new_zeros(1)
        for inputs, labels in test.batches(_TEST_BATCH):
            right += (self.model(inputs).argmax(1) == labels).sum()
        self.workers.settle()
        loss, train_right, test_right = self.workers.total(torch.cat([totals, right]))
        return loss, train_right, test_right / len(self.data.test)

    def _balance(self, balancer: Balancer) -> None:
        """Share out the next steps by how long the last ones took each worker."""
        took = self.workers.each(median(self._computed))
        self._computed = []
        if balancer.look(took) and self.workers.rank == 0:
            print(f"batches of the workers: {balancer.shares}", flush=True)

    def _save(self) -> None:
        began = time.perf_counter()
        if checkpoint.save(self.place, self.model, self.optimiser, self.workers):
            self.terms.add("checkpoint", time.perf_counter() - began)

    def _note_arithmetic_done(self, _: Tensor) -> None:
        if self._sees_waiting:
            self.workers.settle()
        self._arithmetic_done = time.perf_counter()


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the command line says and return the exit code."""
    settings = parse(arguments)
    return exit_code("train", lambda: train(settings))


def train(settings: TrainingFlags) -> None:
    """Train to the end."""
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    data = load(settings.data, settings.limit, settings.test_limit)
    workers = join(settings.device)
    trainer = Trainer(settings, data.to(workers.device), workers)
    if workers.rank == 0:
        print(_opening(settings, trainer), flush=True)
    cotune.report(trainer.progress)
    trainer.run()
    leave()


def parse(arguments: Sequence[str] | None = None) -> TrainingFlags:
    """Return the settings on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m cotune.workloads.train",
        description="Train a ready-made network, alone, under torchrun or under cotune.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    flag = parser.add_argument
    flag("--model", choices=MODELS, default="lenet5", help="the network")
    flag("--data", choices=SOURCES, default="digits", help="the data set; all but digits are read from COTUNE_DATA")
    flag("--batch-size", type=positive, default=64, help="examples one worker takes at once")
    flag("--accumulate", type=positive, default=1, help="batches one worker takes before each step")
    flag("--epochs", type=positive, default=10, help="epochs in all, those before a resumed checkpoint included")
    flag("--lr", type=float, default=0.05, help="learning rate of the first epoch")
    flag("--momentum", type=float, default=0.9, help="momentum of SGD")
    flag("--weight-decay", type=float, default=0.0, help="weight decay of SGD")
    flag("--decay", type=float, default=1.0, help="factor on the learning rate after every epoch")
    flag("--seed", type=int, default=0, help="of the first weights and the order of the examples")
    flag("--limit", type=positive, help="train on the first so many examples only")
    flag("--test-limit", type=positive, help="test on the first so many examples only")
    flag("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto takes a GPU if there is one")
    flag("--threads", type=positive, help="CPU threads of this worker; torch decides if not given")
    flag("--balance", action="store_true", help="give slower workers smaller batches (LB-BSP)")
    return TrainingFlags(**vars(parser.parse_args(arguments)))


def _opening(settings: TrainingFlags, trainer: Trainer) -> str:
    """Return one line that says what is trained on what, and with which global batch."""
    examples, published, workers = len(trainer.data.train), trainer.data.published, trainer.workers.count
    of = "" if examples == published else f" of {published:,}"
    return (
        f"{settings.model} ({parameters(trainer.model):,} parameters) on {settings.data}: "
        f"{examples:,}{of} train and {len(trainer.data.test):,} test examples; batch_size {settings.batch_size} "
        f"x accumulate {settings.accumulate} x workers {workers} "
        f"= global_batch {settings.batch_size * settings.accumulate * workers}; {trainer.workers.device}"
    )


if __name__ == "__main__":
    sys.exit(main())
