"""Sequences of tokens by number, the same for every layout: from a text file's bytes, or made up.

Sequence i begins at a place of the text that i decides. Made-up tokens follow each other by a rule with four ways to
go on, so that there is something to learn: x' = 5 x + 7 + (0, 1, 2 or 3) modulo the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_PRIME = 1_000_003  # places of a text are visited in steps of it
_BYTES = 256


@dataclass(frozen=True)
class MadeUp:
    """Tokens that follow each other by a rule."""

    vocab: int
    seed: int

    def sequence(self, number: int, length: int) -> npt.NDArray[np.int64]:
        chance = np.random.default_rng((self.seed, number))
        tokens = np.empty(length, dtype=np.int64)
        tokens[0] = chance.integers(self.vocab)
        for place, choice in enumerate(chance.integers(0, 4, length - 1), start=1):
            tokens[place] = (5 * tokens[place - 1] + 7 + choice) % self.vocab
        return tokens


@dataclass(frozen=True)
class Text:
    """The bytes of a file."""

    content: npt.NDArray[np.uint8]

    @classmethod
    def read(cls, file: Path, vocab: int, length: int) -> Text:
        """Return a file's bytes, or raise why they cannot be trained on."""
        content = np.fromfile(file, dtype=np.uint8)
        if len(content) <= length:
            raise ValueError(f"{file} has {len(content)} bytes, fewer than a sequence of {length} and its next token")
        if vocab < _BYTES:
            raise ValueError(f"a text is read as bytes, of which there are {_BYTES}; the model knows {vocab} tokens")
        return cls(content)

    def sequence(self, number: int, length: int) -> npt.NDArray[np.int64]:
        begin = (number * _PRIME) % (len(self.content) - length + 1)
        return self.content[begin : begin + length].astype(np.int64)


def batch(source: MadeUp | Text, first: int, count: int, length: int) -> tuple[Tensor, Tensor]:
    """Return `count` sequences from number `first` on, and the tokens that follow each of theirs."""
    rows = torch.from_numpy(np.stack([source.sequence(number, length + 1) for number in range(first, first + count)]))
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
