"""The script of minimal_ddp.py with the one line that tells cotune how it goes, and ends when that is enough.

torchrun --nproc-per-node 2 examples/with_report.py --batch-size 32 --epochs 5
"""

import argparse

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import cotune

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--lr", type=float, default=0.1)
flags = parser.parse_args()

dist.init_process_group("gloo")
torch.manual_seed(0)
pixels, labels = load_digits(return_X_y=True)
pixels, labels = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(labels)
train = TensorDataset(pixels[:1500], labels[:1500])
sampler = DistributedSampler(train)
loader = DataLoader(train, flags.batch_size, sampler=sampler)

model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
optimiser = torch.optim.SGD(model.parameters(), flags.lr)
for epoch in range(1, flags.epochs + 1):
    sampler.set_epoch(epoch)
    for inputs, classes in loader:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        optimiser.step()
    with torch.no_grad():
        accuracy = (model(pixels[1500:]).argmax(1) == labels[1500:]).float().mean().item()
    if dist.get_rank() == 0:
        print(f"epoch {epoch} accuracy {accuracy:.3f}", flush=True)
    if cotune.report(epoch=epoch, accuracy=accuracy):
        break

dist.destroy_process_group()
