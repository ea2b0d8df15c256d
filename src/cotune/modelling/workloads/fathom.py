"""The eight workloads of Fathom (Adolf et al. 2016) as small models of today, with random data.

    seq2seq    LSTM encoder and decoder with attention           translation
    memnet     three hops over a memory of sentences             questions
    speech     dense layers around a two-way recurrent one, CTC  recordings
    autoenc    variational autoencoder                           digits
    residual   ResNet-34                                         pictures
    vgg        VGG-19 with its three dense layers                pictures
    alexnet    AlexNet                                           pictures
    deepq      Q-network with a frozen target network            games

They keep the structure of the originals; sizes are cut so that a step takes well under a second on
a CPU. A workload is one function that returns a `Workload`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # as everybody writes it

from cotune.modelling.counting.workload import Batch, Workload
from cotune.workloads.models import residual_network

_WORDS, _WIDTH, _LAYERS, _LENGTH = 4000, 256, 3, 20  # of the translation


class Seq2Seq(nn.Module):
    """A recurrent encoder, and a decoder that attends to it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_WORDS, _WIDTH)
        self.encoder = nn.LSTM(_WIDTH, _WIDTH, _LAYERS, batch_first=True)
        self.decoder = nn.LSTM(_WIDTH, _WIDTH, _LAYERS, batch_first=True)
        self.attention = nn.Linear(_WIDTH, _WIDTH, bias=False)
        self.words = nn.Linear(2 * _WIDTH, _WORDS)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        read, state = self.encoder(self.embedding(source))
        written, _ = self.decoder(self.embedding(target), state)
        scores = torch.bmm(self.attention(written), read.transpose(1, 2))
        seen = torch.bmm(scores.softmax(dim=-1), read)
        out: Tensor = self.words(torch.cat([written, seen], dim=-1))
        return out


def seq2seq() -> Workload:
    """Return the translation workload."""

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        source, target, wanted = batch
        return F.cross_entropy(model(source, target).flatten(0, 1), wanted.flatten())

    return Workload(
        "seq2seq",
        Seq2Seq,
        lambda examples: tuple(torch.randint(_WORDS, (examples, _LENGTH)) for _ in range(3)),
        loss,
    )


class MemoryNetwork(nn.Module):
    """A question that looks several times into a memory of sentences."""

    def __init__(self, words: int = 200, width: int = 64, sentences: int = 50, hops: int = 3) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(words, width) for _ in range(hops + 1))
        self.order = nn.Parameter(torch.zeros(sentences, width))
        self.answer = nn.Linear(width, words)
        self.hops = hops

    def forward(self, story: Tensor, question: Tensor) -> Tensor:
        thought = self.embeddings[0](question).sum(dim=1)
        for hop in range(self.hops):
            memory = self.embeddings[hop](story).sum(dim=2) + self.order
            output = self.embeddings[hop + 1](story).sum(dim=2)
            weights = torch.softmax((memory * thought[:, None]).sum(dim=-1), dim=-1)
            thought = thought + (weights[..., None] * output).sum(dim=1)
        out: Tensor = self.answer(thought)
        return out


def memnet() -> Workload:
    """Return the question-answering workload."""

    def batch(examples: int) -> Batch:
        shapes = ((examples, 50, 7), (examples, 7), (examples,))
        return tuple(torch.randint(200, shape) for shape in shapes)

    return Workload("memnet", MemoryNetwork, batch, _of_classes)


class Speech(nn.Module):
    """Dense layers on frames with their neighbours, a two-way recurrent layer, and letters."""

    def __init__(self, features: int = 494, width: int = 256, letters: int = 29) -> None:
        super().__init__()
        self.frames = nn.Sequential(*(_clipped(a, b) for a, b in ((features, width), (width, width), (width, width))))
        self.both_ways = nn.RNN(width, width, nonlinearity="relu", bidirectional=True, batch_first=True)
        self.last = _clipped(2 * width, width)
        self.letters = nn.Linear(width, letters)

    def forward(self, recording: Tensor) -> Tensor:
        heard, _ = self.both_ways(self.frames(recording))
        return F.log_softmax(self.letters(self.last(heard)), dim=-1)


def _clipped(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.Hardtanh(0, 20))


def speech() -> Workload:
    """Return the speech workload: 100 frames, and a text of 20 letters by CTC."""

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        recording, text = batch
        frames = model(recording).transpose(0, 1)
        heard, spoken = (torch.full((text.shape[0],), length) for length in (100, 20))
        return F.ctc_loss(frames, text, heard, spoken)

    return Workload(
        "speech",
        Speech,
        lambda examples: (torch.randn(examples, 100, 494), torch.randint(1, 29, (examples, 20))),
        loss,
    )


class Autoencoder(nn.Module):
    """A picture into a small normal distribution, and back."""

    def __init__(self, pixels: int = 784, width: int = 500, code: int = 20) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, width), nn.Softplus(), nn.Linear(width, width), nn.Softplus())
        self.mean, self.log_variance = nn.Linear(width, code), nn.Linear(width, code)
        self.decoder = nn.Sequential(
            *(nn.Linear(code, width), nn.Softplus(), nn.Linear(width, width), nn.Softplus(), nn.Linear(width, pixels))
        )

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.encoder(pictures)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


def autoenc() -> Workload:
    """Return the autoencoder workload."""

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        again, mean, log_variance = model(*batch)
        distance: Tensor = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return F.binary_cross_entropy_with_logits(again, batch[0], reduction="sum") + distance

    return Workload("autoenc", Autoencoder, lambda examples: (torch.rand(examples, 784),), loss, batch_size=128)


def residual() -> Workload:
    """Return ResNet-34 on pictures of 64 pixels."""
    return pictures("residual", lambda: residual_network((3, 4, 6, 3)), 64)


def vgg() -> Workload:
    """Return VGG-19 on pictures of 64 pixels."""
    return pictures("vgg", _vgg, 64, batch_size=16)


def _vgg() -> nn.Module:
    layers: list[nn.Module] = []
    entering = 3
    for width, depth in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(depth):
            layers += [nn.Conv2d(entering, width, 3, padding=1), nn.ReLU(inplace=True)]
            entering = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), *_dense(512 * 2 * 2))


def _dense(inputs: int) -> list[nn.Module]:
    """Return the three dense layers that end AlexNet and VGG."""
    hidden = [nn.Dropout(), nn.Linear(inputs, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU()]
    return [*hidden, nn.Linear(4096, 1000)]


def alexnet() -> Workload:
    """Return AlexNet on pictures of 224 pixels."""
    return pictures("alexnet", _alexnet, 224)


def _alexnet() -> nn.Module:
    sides = ((3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1), (256, 256, 3, 1, 1))
    layers: list[nn.Module] = []
    for place, (entering, width, side, stride, padding) in enumerate(sides):
        layers += [nn.Conv2d(entering, width, side, stride, padding), nn.ReLU(inplace=True)]
        layers += [nn.MaxPool2d(3, 2)] if place in (0, 1, 4) else []
    return nn.Sequential(*layers, nn.Flatten(), *_dense(256 * 6 * 6))


def pictures(
    name: str,
    build: Callable[[], nn.Module],
    side: int,
    batch_size: int = 32,
    *,
    channels: int = 3,
    classes: int = 1000,
) -> Workload:
    """Return a classifier of pictures, in colour and into a thousand classes unless it is said otherwise."""

    def batch(examples: int) -> Batch:
        return torch.randn(examples, channels, side, side), torch.randint(classes, (examples,))

    return Workload(name, build, batch, _of_classes, batch_size=batch_size)


def _of_classes(model: nn.Module, batch: Batch) -> Tensor:
    """Return the loss of a classifier; the classes come last in its batch."""
    *inputs, wanted = batch
    return F.cross_entropy(model(*inputs), wanted)


class DeepQ(nn.Module):
    """What each action is worth: a network that learns, and the frozen one it learns from."""

    def __init__(self, actions: int = 6) -> None:
        super().__init__()
        self.online, self.target = _screens(actions), _screens(actions).requires_grad_(False)

    def forward(self, screens: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            later = self.target(after).amax(dim=1)
        return self.online(screens), later


def _screens(actions: int) -> nn.Module:
    seen = (nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU())
    return nn.Sequential(*seen, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions))


def deepq() -> Workload:
    """Return the game-playing workload."""

    def batch(examples: int) -> Batch:
        screens = torch.rand(examples, 4, 84, 84), torch.rand(examples, 4, 84, 84)
        return *screens, torch.randint(6, (examples,)), torch.rand(examples)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        screens, after, action, reward = batch
        worth, later = model(screens, after)
        return F.smooth_l1_loss(worth.gather(1, action[:, None]).squeeze(1), reward + 0.99 * later)

    return Workload("deepq", DeepQ, batch, loss)


FATHOM = {workload.__name__: workload for workload in (seq2seq, memnet, speech, autoenc, residual, vgg, alexnet, deepq)}
