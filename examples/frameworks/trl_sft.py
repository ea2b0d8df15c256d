"""A small Llama from its config, fine-tuned by TRL's SFTTrainer with a tokenizer made here; nothing of cotune.

python examples/frameworks/trl_sft.py
"""

import sysconfig
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

library = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[ab]*.py"))
texts = [piece for path in library for piece in path.read_text(errors="replace").split("\n\n") if len(piece) > 200]
plain = Tokenizer(models.BPE(unk_token="<unk>"))
plain.pre_tokenizer = pre_tokenizers.ByteLevel()
plain.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=256, special_tokens=["<unk>", "<eos>", "<pad>"]))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="<unk>", eos_token="<eos>", pad_token="<pad>")
data = Dataset.from_dict({"text": texts[:1024]}).train_test_split(64, seed=0)
torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=256, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
    )
)  # fmt: skip
config = SFTConfig(
    output_dir="out",
    num_train_epochs=3,
    per_device_train_batch_size=8,
    per_device_eval_batch_size=32,
    learning_rate=1e-2,
    lr_scheduler_type="constant",
    max_length=32,
    eval_strategy="steps",
    eval_steps=25,
    save_strategy="no",
    report_to="none",
    gradient_checkpointing=False,
    bf16=False,
)
trainer = SFTTrainer(
    model=model, args=config, train_dataset=data["train"], eval_dataset=data["test"], processing_class=tokenizer
)
trainer.train()
