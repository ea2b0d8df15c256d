"""What the name of a metric says: which way is better, and whether it is a share, reported as 0.98 or as 98 %.

A name is read word by word from its end (`eval/cer_loss` is a loss): `val_loss` falls, `test-accuracy` rises. A name
that says neither is not guessed at: the user is asked.
"""

from __future__ import annotations

import re
from typing import Literal

Better = Literal["higher", "lower"]

_SHARES_RISING = {
    *("acc", "accuracy", "accuracies", "precision", "recall", "f1", "fscore", "auc", "auroc", "auprc", "roc", "iou"),
    *("miou", "dice", "map", "ap", "top1", "top5", "em", "rouge", "rougel", "rouge1", "rouge2", "ndcg", "mrr", "hit"),
    *("ssim", "kappa"),
}
_RISING = {*_SHARES_RISING, "bleu", "sacrebleu", "chrf", "psnr", "score", "reward", "return", "r2", "mcc", "likelihood"}
_SHARES_FALLING = {"wer", "cer", "ter", "err", "error", "errors", "eer"}
_FALLING = {
    *_SHARES_FALLING,
    *("loss", "losses", "nll", "bce", "xent", "crossentropy", "entropy", "perplexity", "ppl", "mae", "mse", "rmse"),
    *("mape", "smape", "fid", "bpc", "bpb", "kl", "elbo", "lpips", "regret"),
}
_HELD_OUT = {"val", "valid", "validation", "eval", "evaluation", "test", "dev", "heldout"}


def better(name: str) -> Better | None:
    """Return which way a metric of this name is better, or None where the name does not say."""
    for word in reversed(_words(name)):
        if word in _FALLING:
            return "lower"
        if word in _RISING:
            return "higher"
    return None


def is_share(name: str) -> bool:
    """Return whether a metric of this name is a share of a whole, which some report in per cent."""
    known = next((word for word in reversed(_words(name)) if word in _FALLING or word in _RISING), "")
    squared = {"mean", "squared", "absolute", "root"} & set(_words(name))
    return known in _SHARES_RISING or (known in _SHARES_FALLING and not squared)


def is_held_out(name: str) -> bool:
    """Return whether a name says that the metric is of data that was not trained on."""
    return not _HELD_OUT.isdisjoint(_words(name))


def _words(name: str) -> list[str]:
    """Return the words of a name in small letters: `evalLoss`, `eval/loss` and `eval_loss` are the same."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return re.findall("[a-z]+[0-9]*", spaced.lower())
