"""Does the batch that cotune chooses fit the first time? 40 ways to train transformers models, on a real GPU.

    python benchmarks/fits_first_time.py --out FILE [--gib 24] [--others]     measure; needs CUDA, transformers, peft
    python benchmarks/fits_first_time.py --again FILE                         judge what was measured once more

Five models (or five others) of random weights in bf16, in full and by LoRA, two sequence lengths, with and without
checkpointing, plain loops with torch's AdamW. Torch may take what a card of `--gib` gibibytes would leave it (context
and driver apart: `set_per_process_memory_fraction`). Of each way two small batches are measured: one sequence, and a
quarter of what the counts alone think is the largest. Then `largest_batch` chooses, on a grid of two steps a doubling,
what fits with P >= 0.95. The choice is run, and the next larger ones, until memory runs out: so the largest that fits
is known.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import itertools
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotune.modelling.memory import (
    CountedMemory,
    DeviceRoom,
    TrainingSetup,
    count,
    estimate,
    from_config,
    largest_batch,
)  # fmt: skip
from cotune.modelling.memory.phases import CONTEXT, FRAGMENTS, FRAGMENTS_SPREAD, GIB, VISIBLE

GRID = sorted({2**power for power in range(12)} | {3 * 2**power for power in range(11)})
SEQUENCES = (512, 2048)
CONFIDENCE = 0.95
STEPS = 3  # the first makes the optimiser's states, the others show the peak
MODELS: dict[str, dict[str, Any]] = {
    "smollm2-135m": {
        "model_type": "llama", "num_hidden_layers": 30, "hidden_size": 576, "num_attention_heads": 9,
        "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152, "tie_word_embeddings": True,
    },
    "qwen2.5-0.5b": {
        "model_type": "qwen2", "num_hidden_layers": 24, "hidden_size": 896, "num_attention_heads": 14,
        "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": True,
    },
    "gpt2-medium": {
        "model_type": "gpt2", "n_layer": 24, "n_embd": 1024, "n_head": 16, "vocab_size": 50257, "n_positions": 2048,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    },
    "pythia-410m": {
        "model_type": "gpt_neox", "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16,
        "intermediate_size": 4096, "vocab_size": 50304,
    },
    "llama-3.2-1b": {
        "model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True,
    },
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "opt-125m": {
        "model_type": "opt", "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "ffn_dim": 3072,
        "vocab_size": 50272, "word_embed_proj_dim": 768, "dropout": 0.0,
    },
    "mistral-small": {
        "model_type": "mistral", "num_hidden_layers": 12, "hidden_size": 1024, "num_attention_heads": 16,
        "num_key_value_heads": 4, "intermediate_size": 3584, "vocab_size": 32000, "tie_word_embeddings": False,
    },
    "tinyllama-1.1b": {
        "model_type": "llama", "num_hidden_layers": 22, "hidden_size": 2048, "num_attention_heads": 32,
        "num_key_value_heads": 4, "intermediate_size": 5632, "vocab_size": 32000, "tie_word_embeddings": False,
    },
    "phi-1.5": {
        "model_type": "phi", "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 32,
        "intermediate_size": 8192, "vocab_size": 51200, "tie_word_embeddings": False,
    },
    "qwen2.5-1.5b": {
        "model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 1536, "num_attention_heads": 12,
        "num_key_value_heads": 2, "intermediate_size": 8960, "vocab_size": 151936, "tie_word_embeddings": True,
    },
}  # fmt: skip
ALL = MODELS | OTHERS
ADAPTED = {
    "mistral": ["q_proj", "k_proj", "v_proj", "o_proj"],
    "opt": ["q_proj", "k_proj", "v_proj", "out_proj"],
    "phi": ["q_proj", "k_proj", "v_proj", "dense"],
    "gpt2": ["c_attn"],
    "gpt_neox": ["query_key_value"],
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj"],
    "qwen2": ["q_proj", "k_proj", "v_proj", "o_proj"],
}


@dataclass(frozen=True)
class Way:
    """One way to train one model."""

    model: str
    method: str
    sequence: int
    checkpointing: bool

    def __str__(self) -> str:
        return f"{self.model} {self.method} {self.sequence}{' checkpointed' if self.checkpointing else ''}"

    @property
    def counted(self) -> CountedMemory:
        method = "lora" if self.method == "lora" else "full"
        setup = TrainingSetup(method=method, sequence=self.sequence, checkpointing=self.checkpointing)  # type: ignore[arg-type]
        return count(from_config(ALL[self.model], self.model), setup)


def main() -> None:
    """Measure and judge, or judge again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", type=Path)
    parser.add_argument("--gib", type=float, default=24.0)
    parser.add_argument("--others", action="store_true", help="the other five models")
    parser.add_argument("--seconds", type=float, default=500.0, help="nothing is begun after so long")
    asked = parser.parse_args()
    if asked.again:
        kept = json.loads(asked.again.read_text())
        judge(kept["rows"], room_of(kept["gib"]))
        return
    rows, until = [], time.monotonic() + asked.seconds
    for model, method in itertools.product(OTHERS if asked.others else MODELS, ("full", "lora")):
        for sequence, checkpointing in itertools.product(SEQUENCES, (True, False)):
            if time.monotonic() < until:
                rows.append(tried(Way(model, method, sequence, checkpointing), room_of(asked.gib)))
                asked.out.write_text(json.dumps({"gib": asked.gib, "rows": rows}))
    judge(rows, room_of(asked.gib))


def room_of(gib: float) -> DeviceRoom:
    """Return the room of a card of so many gibibytes, as `device_room` does for one that it knows."""
    total = VISIBLE * gib * GIB
    there = total - CONTEXT
    return DeviceRoom(total, there * (1 - FRAGMENTS), there * FRAGMENTS_SPREAD)


def on_grid(most: int) -> int:
    """Return the largest batch of the grid that is no larger, or 0."""
    return max((batch for batch in GRID if batch <= most), default=0)


def chosen(counted: CountedMemory, room: DeviceRoom, peaks: dict[int, float]) -> int:
    """Return the batch of the grid that is expected to fit, by what was measured of others."""
    return on_grid(largest_batch(counted, room, CONFIDENCE, measured=peaks))


def tried(way: Way, room: DeviceRoom) -> dict[str, Any]:
    """Return the peaks of some batches of a way: two small ones, the choice, and on to the first that does not fit."""
    begun, trainer = time.monotonic(), Trainer(way, room)
    first = chosen(way.counted, room, {})
    small = sorted({1, max(2, on_grid(first // 4))}) if first > 2 else [1]
    peaks: dict[int, float | None] = {batch: trainer.peak(batch) for batch in small}
    known = {batch: peak for batch, peak in peaks.items() if peak is not None}
    choice = chosen(way.counted, room, known)
    for batch in GRID[GRID.index(choice) if choice else 0 :]:
        peaks[batch] = peaks[batch] if batch in peaks else trainer.peak(batch)
        if peaks[batch] is None:
            break
    for batch in reversed(GRID[: GRID.index(choice)] if choice else []):
        if any(peak is not None and at >= batch for at, peak in peaks.items()):
            break
        peaks[batch] = trainer.peak(batch)
    row = {
        "model": way.model, "method": way.method, "sequence": way.sequence, "checkpointing": way.checkpointing,
        "small": small, "peaks": {str(batch): peaks[batch] for batch in sorted(peaks)},
        "seconds": time.monotonic() - begun,
    }  # fmt: skip
    print(f"{way}: counted {first}, chose {choice}, {row['peaks']}, {row['seconds']:.1f} s", flush=True)
    return row


class Trainer:
    """A model on the GPU with its optimiser, which tells the peak of a few steps."""

    def __init__(self, way: Way, room: DeviceRoom) -> None:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        self._torch, self._way = torch, way
        there = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction((room.total - CONTEXT) / there)
        written = dict(ALL[way.model])
        config = AutoConfig.for_model(written.pop("model_type"), **written)
        config.use_cache = False
        with torch.device("cuda"):
            self.model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        if way.checkpointing:
            self.model.gradient_checkpointing_enable()
        if way.method == "lora":
            self._adapt()
        self.model.train()
        taught = [one for one in self.model.parameters() if one.requires_grad]
        self.optimiser = torch.optim.AdamW(taught, lr=1e-5)

    def _adapt(self) -> None:
        peft = importlib.import_module("peft")
        kind = ALL[self._way.model]["model_type"]
        if self._way.checkpointing:
            self.model.enable_input_require_grads()
        asked = peft.LoraConfig(r=16, target_modules=ADAPTED[kind], task_type="CAUSAL_LM")
        self.model = peft.get_peft_model(self.model, asked)

    def peak(self, batch: int) -> float | None:
        """Return torch's peak bytes of a few steps, or None where memory ran out."""
        torch = self._torch
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        tokens = torch.randint(0, ALL[self._way.model]["vocab_size"], (batch, self._way.sequence), device="cuda")
        try:
            for _ in range(STEPS):
                self.model(input_ids=tokens, labels=tokens).loss.backward()
                self.optimiser.step()
                self.optimiser.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
        except torch.OutOfMemoryError:
            self.optimiser.zero_grad(set_to_none=True)
            return None
        return float(torch.cuda.max_memory_allocated())


def judge(rows: list[dict[str, Any]], room: DeviceRoom) -> None:
    """Print what was chosen beside what fits, after two batches and without any."""
    near, failed = {"counted": 0, "measured": 0}, {"counted": 0, "measured": 0}
    errors: dict[str, list[float]] = {"counted": [], "measured": []}
    print("| model | method | sequence | checkpointing | largest that fits | counted alone | after two batches |")
    print("| --- " * 7 + "|")
    for row in rows:
        way = Way(row["model"], row["method"], row["sequence"], row["checkpointing"])
        peaks = {int(batch): peak for batch, peak in row["peaks"].items()}
        fits = [batch for batch, peak in peaks.items() if peak is not None]
        largest = max(fits, default=0)
        small = {batch: peaks[batch] for batch in row["small"] if peaks.get(batch) is not None}
        picks = {"counted": chosen(way.counted, room, {}), "measured": chosen(way.counted, room, small)}
        for kind, pick in picks.items():
            near[kind] += abs(([0, *GRID]).index(pick) - ([0, *GRID]).index(largest)) <= 1
            failed[kind] += pick > largest
            known = small if kind == "measured" else None
            errors[kind] += [
                abs(estimate(way.counted, batch, measured=known).mid / peak - 1)
                for batch, peak in peaks.items()
                if peak is not None and batch not in row["small"]
            ]
        kept = "on" if way.checkpointing else "off"
        cells = [way.model, way.method, way.sequence, kept, largest, picks["counted"], picks["measured"]]
        print(f"| {' | '.join(map(str, cells))} |")
    for kind, words in (("measured", "after two batches"), ("counted", "without a run")):
        missed = sorted(errors[kind]) or [float("nan")]
        told = f"median error {missed[len(missed) // 2]:.1%}, p90 {missed[int(0.9 * len(missed))]:.1%}"
        print(f"{words}: {near[kind]} of {len(rows)} within a grid step, out of memory {failed[kind]}; {told}")


if __name__ == "__main__":
    main()
