"""A character model in the manner of nanoGPT: settings as globals, steps, an evaluation every few; nothing of cotune.

python examples/frameworks/nanogpt.py --max_iters=300 --batch_size=16
"""

import os
import sysconfig
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

eval_interval = 20
eval_iters = 4
log_interval = 10
batch_size = 16
block_size = 32
n_layer = 1
n_head = 4
n_embd = 32
learning_rate = 4e-3
max_iters = 400
exec((Path(__file__).parent / "configurator.py").read_text())  # nanoGPT's own way

ddp = int(os.environ.get("WORLD_SIZE", "1")) > 1
if ddp:
    torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank = torch.distributed.get_rank() if ddp else 0
device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1337 + rank)
library = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-f]*.py"))
text = "".join(path.read_text(errors="replace") for path in library)[:200_000]
letters = sorted(set(text))
codes = {letter: number for number, letter in enumerate(letters)}
data = torch.tensor([codes[letter] for letter in text])
train_data, val_data = data[: int(0.9 * len(data))], data[int(0.9 * len(data)) :]


def get_batch(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    rows = train_data if split == "train" else val_data
    starts = torch.randint(len(rows) - block_size, (batch_size,)).tolist()
    x = torch.stack([rows[at : at + block_size] for at in starts])
    y = torch.stack([rows[at + 1 : at + 1 + block_size] for at in starts])
    return x.to(device), y.to(device)


class GPT(nn.Module):
    """Learnt positions, encoder layers under a causal mask, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(len(letters), n_embd), nn.Embedding(block_size, n_embd)
        layer = nn.TransformerEncoderLayer(n_embd, n_head, 4 * n_embd, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, n_layer, enable_nested_tensor=False)
        self.head = nn.Linear(n_embd, len(letters))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        seen = self.layers(self.words(x) + self.places(torch.arange(x.shape[1], device=x.device)), mask, is_causal=True)
        return functional.cross_entropy(self.head(seen).flatten(0, 1), y.flatten())


@torch.no_grad()
def estimate_loss() -> dict[str, float]:
    means = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for split in ("train", "val"):
            means[split] = sum(raw_model(*get_batch(split)).item() for _ in range(eval_iters)) / eval_iters
    return means


raw_model = GPT().to(device)
model = DistributedDataParallel(raw_model) if ddp else raw_model
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
for iter_num in range(max_iters + 1):
    if iter_num % eval_interval == 0 and rank == 0:
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
    loss = model(*get_batch("train"))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if iter_num % log_interval == 0 and rank == 0:
        print(f"iter {iter_num}: loss {loss.item():.4f}")
if ddp:
    torch.distributed.destroy_process_group()
