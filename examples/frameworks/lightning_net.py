"""A small network on a made-up picture problem, trained by Lightning with a data module; nothing of cotune.

python examples/frameworks/lightning_net.py
"""

import lightning as L  # noqa: N812  # as its own documents call it
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Shapes(L.LightningDataModule):
    """Noisy pictures of one of ten patterns."""

    def __init__(self, batch_size: int = 32) -> None:
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage: str) -> None:  # noqa: ARG002  # the hook's own signature
        chance = torch.Generator().manual_seed(0)
        patterns = torch.randn(10, 1, 12, 12, generator=chance)
        labels = torch.randint(10, (3000,), generator=chance)
        pictures = patterns[labels] + 2.5 * torch.randn(3000, 1, 12, 12, generator=chance)
        self.train = TensorDataset(pictures[:2500], labels[:2500])
        self.val = TensorDataset(pictures[2500:], labels[2500:])

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, batch_size=500)


class Net(L.LightningModule):
    """Two convolutions and a linear layer."""

    def __init__(self, lr: float = 0.01) -> None:  # noqa: ARG002  # save_hyperparameters takes it
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            *(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
        )

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: list[torch.Tensor]) -> None:
        scores = self.net(batch[0])
        self.log("val_loss", functional.cross_entropy(scores, batch[1]), sync_dist=True)
        self.log("val_acc", (scores.argmax(1) == batch[1]).float().mean(), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)


L.seed_everything(0)
trainer = L.Trainer(max_epochs=10, enable_progress_bar=False, logger=False)
trainer.fit(Net(), datamodule=Shapes())
