"""HeterPS's scheduler: a recurrent policy chooses axis by axis and learns by REINFORCE.

    h_l = cell(features of axis l, choice at l - 1; h_l-1)      P(choice) = softmax(W h_l / temperature)
    theta += rate x mean over plans of  advantage x sum over axes of grad log P(choice | earlier)
    advantage = (b - cost) / first median cost                  b <- (1 - gamma) b + gamma mean(cost)

A point that is not valid costs `penalty` times that median. The policy is first trained on
points drawn at random, then on its own, until `settled` rounds in a row drew one and the same point. All of that is
judged by the cost model. In the paper's second phase the policy goes on with rewards that were measured: `refine`
asks for the real cost of its own points, one in each episode, with a share `explore` of the choices left to
chance, and answers with the best that was measured.
Paper and code leave open the hidden size, the number of plans, the rates and what an infeasible plan
earns: the defaults are our choice. Features are the paper's five per layer for a placement
(index, kind, input size, weight size, communication); any other space has the index alone.

Reference: Liu et al., HeterPS, Future Generation Computer Systems, 2023; Williams, REINFORCE, Machine Learning 8, 1992.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from cotune.bounds import Count, NotNegative, Positive, Whole
from cotune.errors import missing_extra
from cotune.lab.searches import BestSeen
from cotune.plan import Point, Rank
from cotune.space import Space
from cotune.types import Floats, Ints

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Reinforce:
    """Train an LSTM by policy gradient to choose each axis, as HeterPS does for layers."""

    rounds: Count = 200
    plans: Count = 10
    pretrain: Whole = 20
    hidden: Count = 64
    rate: Positive = 1e-2
    gamma: NotNegative = 0.1
    penalty: NotNegative = 5.0
    temperature: Positive = 1.0
    cell: Literal["lstm", "rnn"] = "lstm"
    answer: Literal["best", "probable"] = "best"
    settled: Count = 5
    explore: NotNegative = 0.3
    features: tuple[tuple[float, ...], ...] = ()

    def search(self, space: Space, rank: Rank, rng: random.Random) -> Point:
        try:
            import torch
        except ImportError:
            raise missing_extra("PyTorch", "torch") from None
        with _one_thread(rng):
            policy = _policy(self, space)
            return self._train(policy, torch.optim.Adam(policy.parameters(), lr=self.rate), space, rank, rng)

    def refine(self, space: Space, rank: Rank, measured: Rank, episodes: int, rng: random.Random) -> Point:
        """Train by the cost model, then by measured costs of its own points, and return the best measured."""
        import torch

        with _one_thread(rng):
            policy = _policy(self, space)
            optimiser = torch.optim.Adam(policy.parameters(), lr=self.rate)
            self._train(policy, optimiser, space, rank, rng)
            seen, reward = BestSeen(measured), _Reward(self.gamma, self.penalty)
            for episode in range(episodes):
                points, _ = policy(1, self.temperature if episode else 0.0, None)
                if episode:  # the first is what the cost model taught; from then on chance tries its neighbours
                    points = self._explored(space, points, np.random.default_rng(rng.getrandbits(64)))
                _, likely = policy(1, self.temperature, points)
                advantage = torch.from_numpy(reward.advantage(seen.judge(points)[:, 0]))
                _descend(optimiser, -(advantage.float() * likely).mean())
        return seen.point

    def _explored(self, space: Space, points: Ints, chance: np.random.Generator) -> Ints:
        """Return points some of whose choices are replaced by chance: a policy that is sure would try nothing new."""
        other = chance.integers(0, np.array(space.shape), points.shape)
        return np.where(chance.random(points.shape) < self.explore, other, points)

    def _train(
        self, policy: torch.nn.Module, optimiser: torch.optim.Optimizer, space: Space, rank: Rank, rng: random.Random
    ) -> Point:
        import torch

        seen, reward, same = BestSeen(rank), _Reward(self.gamma, self.penalty), 0
        for round_ in range(self.pretrain + self.rounds):
            chance = np.random.default_rng(rng.getrandbits(64))
            own = round_ >= self.pretrain
            forced = None if own else chance.integers(0, np.array(space.shape), (self.plans, len(space.shape)))
            points, likely = policy(self.plans, self.temperature, forced)
            advantage = torch.from_numpy(reward.advantage(seen.judge(points)[:, 0]))
            _descend(optimiser, -(advantage.float() * likely).mean())
            same = same + 1 if own and (points == points[0]).all() else 0
            if same == self.settled:
                break
        if self.answer == "probable":
            with torch.no_grad():
                points, _ = policy(1, 0.0, None)
            return tuple(int(choice) for choice in points[0])
        return seen.point


@contextmanager
def _one_thread(rng: random.Random) -> Iterator[None]:
    """Let torch use one thread and a random state of its own; both are as before afterwards."""
    import torch

    from cotune.modelling.counting.timing import cores

    # the tensors are tiny: on a busy machine more threads take fifty times as long
    with cores(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(rng.getrandbits(63))
        yield


def _descend(optimiser: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


@dataclass(slots=True)
class _Reward:
    """The moving baseline, in units of the first median cost."""

    gamma: float
    penalty: float
    median: float | None = None
    baseline: float = 0.0

    def advantage(self, costs: Floats) -> Floats:
        """Return what each plan earned over the baseline, and move the baseline."""
        valid = np.isfinite(costs)
        if self.median is None:
            if not valid.any():
                return np.zeros_like(costs)  # nothing to compare with yet
            self.median = max(float(np.median(costs[valid])), np.finfo(float).tiny)
        relative = np.where(valid, costs / self.median, self.penalty)
        if self.baseline == 0.0:
            self.baseline = float(relative.mean())
        advantage: Floats = self.baseline - relative
        self.baseline = (1 - self.gamma) * self.baseline + self.gamma * float(relative.mean())
        return advantage


def _policy(settings: Reinforce, space: Space) -> torch.nn.Module:
    """Return a module (plans, temperature, forced points) -> (points, log likelihoods)."""
    import torch

    sizes = space.shape
    most = max(sizes)
    known = _features(settings.features, len(sizes))
    masks = torch.tensor([[0.0 if choice < size else -torch.inf for choice in range(most)] for size in sizes])

    class Policy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            width = known.shape[1] + most
            self.lstm = settings.cell == "lstm"
            kind = torch.nn.LSTMCell if self.lstm else torch.nn.RNNCell
            self.cell = kind(width, settings.hidden)
            self.head = torch.nn.Linear(settings.hidden, most)

        def forward(self, plans: int, temperature: float, forced: Ints | None) -> tuple[Ints, torch.Tensor]:
            state: torch.Tensor | tuple[torch.Tensor, torch.Tensor] | None = None
            previous = torch.zeros(plans, most)
            chosen: list[torch.Tensor] = []
            likely = torch.zeros(plans)
            for place in range(len(sizes)):
                state = self.cell(torch.cat([known[place].expand(plans, -1), previous], dim=1), state)
                scores = self.head(state[0] if self.lstm else state) + masks[place]
                logs = torch.log_softmax(scores / (temperature or 1.0), dim=1)
                if forced is not None:
                    choice = torch.from_numpy(forced[:, place])
                else:
                    choice = torch.multinomial(logs.exp(), 1)[:, 0] if temperature else logs.argmax(dim=1)
                likely = likely + logs.gather(1, choice[:, None])[:, 0]
                previous = torch.nn.functional.one_hot(choice, most).float()
                chosen.append(choice)
            return torch.stack(chosen, dim=1).numpy(), likely

    return Policy()


def _features(rows: Sequence[Sequence[float]], axes: int) -> torch.Tensor:
    import torch

    index = torch.eye(axes)
    return index if not rows else torch.cat([index, torch.tensor(rows, dtype=torch.float32)], dim=1)
