"""Make the logs in `logs/`: the same small training, written down by each tool itself.

    python tests/adapters/make_logs.py TOOL tests/adapters/logs

in an environment that has the tool (benchmarks/tool_environments.sh makes them). The
training also writes `truth.json`: when each epoch ended and how good it was, by the clock
and the numbers that the tool was given, so that a reader can be held to them.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

EXAMPLES, BATCH, WORKERS, EPOCHS = 512, 32, 2, 4
GLOBAL = BATCH * WORKERS


def epochs(truth: Path) -> Iterator[tuple[int, int, float, float]]:
    """Train a softmax regression; yield (epoch, step, loss, accuracy) at the end of each epoch."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 256))
    labels = rng.integers(0, 4, EXAMPLES)
    x = centres[labels] + 6 * rng.normal(size=(EXAMPLES, 256))
    weights, ends, begun, step = np.zeros((256, 4)), [], time.time(), 0
    for epoch in range(1, EPOCHS + 1):
        losses = []
        for first in range(0, EXAMPLES, GLOBAL):
            rows = slice(first, first + GLOBAL)
            chance = np.exp(x[rows] @ weights)
            chance /= chance.sum(axis=1, keepdims=True)
            losses.append(-np.log(chance[np.arange(len(chance)), labels[rows]]).mean())
            chance[np.arange(len(chance)), labels[rows]] -= 1
            weights -= 0.001 * x[rows].T @ chance / len(chance)
            step += 1
            time.sleep(0.02)  # long enough for the clocks of all tools
        accuracy = float((np.argmax(x @ weights, axis=1) == labels).mean())
        ends.append({"epoch": epoch, "at": time.time(), "accuracy": accuracy})
        yield epoch, step, float(np.mean(losses)), accuracy
    truth.write_text(json.dumps({"began": begun, "epochs": ends}, indent=1))


def compress(file: Path) -> None:
    """Replace a file, mostly of empty pages, by a small one."""
    file.with_suffix(file.suffix + ".xz").write_bytes(lzma.compress(file.read_bytes()))
    file.unlink()


def tensorboard(into: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(into / "w2-b32") as writer:
        for epoch, step, loss, accuracy in epochs(into / "truth.json"):
            writer.add_scalar("train/loss", loss, step)
            writer.add_scalar("val/accuracy", accuracy, step)
            writer.add_scalar("epoch", epoch, step)
    for made in into.glob("w2-b32/*"):
        made.rename(made.with_name("events.out.tfevents.1.host.1.0"))


def mlflow(into: Path) -> None:
    import mlflow as tool

    tool.set_tracking_uri(f"sqlite:///{into}/mlflow.db")
    tool.set_experiment(experiment_id=tool.create_experiment("digits", artifact_location="mlruns"))
    with tool.start_run(run_name="first"):
        tool.log_params({"batch_size": BATCH, "world_size": WORKERS, "lr": 0.01})
        for epoch, step, loss, accuracy in epochs(into / "truth.json"):
            tool.log_metrics({"loss": loss, "val_accuracy": accuracy, "epoch": epoch}, step=step)
    with contextlib.suppress(MemoryError), tool.start_run(run_name="second"):
        tool.log_params({"batch_size": 4096, "world_size": WORKERS})
        raise MemoryError
    compress(into / "mlflow.db")


def wandb(into: Path) -> None:
    import wandb as tool

    config = {"batch_size": BATCH, "workers": WORKERS, "lr": 0.01}
    quiet = tool.Settings(x_disable_meta=True, x_disable_machine_info=True, x_disable_stats=True, disable_git=True)
    where = {"mode": "offline", "dir": into, "project": "digits", "name": "first"}
    with tool.init(**where, config=config, settings=quiet) as run:
        for epoch, step, loss, accuracy in epochs(into / "truth.json"):
            run.log({"loss": loss, "val/accuracy": accuracy, "epoch": epoch}, step=step)
    for made in (into / "wandb").glob("offline-run-*/*"):
        if made.suffix != ".wandb":
            shutil.rmtree(made) if made.is_dir() else made.unlink()
    for link in (into / "wandb").glob("*"):
        if link.is_symlink() or link.is_file():
            link.unlink()


def lightning(into: Path) -> None:
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.loggers import CSVLogger
    from torch.utils.data import DataLoader, TensorDataset

    class Model(LightningModule):
        def __init__(self, batch_size: int, workers: int) -> None:  # noqa: ARG002  # kept as hyperparameters
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(16, 2)

        def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
            loss = torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch: list[torch.Tensor]) -> None:
            right = (self.layer(batch[0]).argmax(1) == batch[1]).float().mean()
            self.log("val_accuracy", right, on_epoch=True)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    torch.manual_seed(0)
    x = torch.randn(EXAMPLES, 16)
    data = TensorDataset(x, (x.sum(1) > 0).long())
    model = Model(GLOBAL, 1)
    trainer = Trainer(
        max_epochs=EPOCHS,
        logger=CSVLogger(into, name="lightning_logs"),
        accelerator="cpu",
        enable_checkpointing=False,
        enable_progress_bar=False,
        log_every_n_steps=4,
    )
    trainer.fit(model, DataLoader(data, GLOBAL), DataLoader(data, EXAMPLES))


def huggingface(into: Path) -> None:
    import torch
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 2)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            scores = self.layer(x)
            return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}

    torch.manual_seed(0)
    x = torch.randn(EXAMPLES, 16)
    data = [{"x": row, "labels": int(row.sum() > 0)} for row in x]
    settings = TrainingArguments(
        output_dir=str(into / "out"),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=GLOBAL,
        per_device_eval_batch_size=EXAMPLES,
        eval_strategy="epoch",
        save_strategy="no",
        logging_strategy="epoch",
        learning_rate=0.1,
        use_cpu=True,
        report_to=[],
        remove_unused_columns=False,
    )
    trainer = Trainer(
        Model(),
        settings,
        train_dataset=data,
        eval_dataset=data,
        compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(1) == found.label_ids).mean())},
    )
    trainer.train()
    trainer.save_state()


def optuna(into: Path) -> None:
    import optuna as tool
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    def train(trial: tool.Trial, truth: Path) -> float:
        batch = trial.suggest_int("batch_size", 1, 4096)
        trial.set_user_attr("workers", WORKERS)
        if batch == 4096:
            raise MemoryError
        accuracy = 0.0
        for epoch, _, _, accuracy in epochs(truth):
            trial.report(accuracy, epoch)
        return accuracy

    journal = JournalStorage(JournalFileBackend(f"{into}/journal.log"))
    for name, storage in (("journal", journal), ("database", f"sqlite:///{into}/optuna.db")):
        study = tool.create_study(study_name="digits", storage=storage, direction="maximize")
        for batch in (BATCH, 4096):
            study.enqueue_trial({"batch_size": batch})
        truth = into / f"{name}.truth.json"
        study.optimize(lambda trial, truth=truth: train(trial, truth), n_trials=2, catch=(MemoryError,))
    compress(into / "optuna.db")


def ray_tune(into: Path) -> None:
    from ray import tune

    def train(config: dict[str, int]) -> None:
        for epoch, _, loss, accuracy in epochs(into / "truth.json"):
            tune.report({"loss": loss, "accuracy": accuracy, "epoch": epoch})

    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    space = {"batch_size": BATCH, "workers": WORKERS}
    tune.Tuner(train, param_space=space, run_config=tune.RunConfig(name="digits", storage_path=str(into))).fit()
    for made in into.glob("digits/*"):
        if not made.is_dir():
            made.unlink()
    for made in into.glob("digits/*/*"):
        if made.name not in ("result.json", "progress.csv", "params.json"):
            made.unlink()


TOOLS: dict[str, Callable[[Path], None]] = {
    made.__name__: made for made in (tensorboard, mlflow, wandb, lightning, huggingface, optuna, ray_tune)
}

if __name__ == "__main__":
    place = Path(sys.argv[2]).absolute() / sys.argv[1]
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    os.chdir("/tmp")  # some tools write down where they ran
    TOOLS[sys.argv[1]](place)
