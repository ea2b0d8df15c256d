"""Lines as trainings print them, with the number that is the metric; None where a careful reader would not say.

Each comes from the thread or page named before it, cut where it goes on. `unit` is what counts progress on the line.
"""

from __future__ import annotations

from typing import NamedTuple


class LogLine(NamedTuple):
    """A line of a framework's log, the metric asked for, its value and what counts progress."""

    framework: str
    line: str
    metric: str
    value: float | None
    unit: str = "epoch"


LINES = [
    # scripts of people who tried cotune
    LogLine("own", "epoch 3 | dev-PPL -> 18.60", "ppl", 18.6),
    LogLine("own", "epoch 3 | dev-PPL -> 18.60", "accuracy", None),
    LogLine("own", "epoch 3 | train-PPL -> 18.60", "ppl", None),
    LogLine("own", "Epoch 3 RMSE(train): 0.8120 RMSE(val): 0.9973", "rmse", 0.9973),
    LogLine("own", "Epoch => 3 RMSE[test]=0.9973", "rmse", 0.9973),
    # Hugging Face Trainer: github.com/tloen/alpaca-lora/issues/268, the last as transformers 5 prints it
    LogLine("transformers", "{'loss': 2.3911, 'learning_rate': 0.00029922, 'epoch': 0.01}", "loss", 2.3911),
    LogLine("transformers", "{'loss': 2.3911, 'learning_rate': 0.00029922, 'epoch': 0.01}", "eval_loss", None),
    LogLine("transformers", "{'loss': 2.3911, 'learning_rate': 0.00029922, 'epoch': 0.01}", "accuracy", None),
    LogLine(
        "transformers",
        "{'eval_loss': 2.2206013202667236, 'eval_runtime': 274.3799, 'eval_samples_per_second': 7.289, 'epoch': 0.01}",
        "eval_loss",
        2.2206013202667236,
    ),
    LogLine(
        "transformers",
        "{'eval_loss': 2.2206013202667236, 'eval_runtime': 274.3799, 'eval_samples_per_second': 7.289, 'epoch': 0.01}",
        "eval_accuracy",
        None,
    ),
    LogLine(
        "transformers",
        "{'eval_loss': '0.4', 'eval_accuracy': '0.91', 'eval_runtime': '2.1', 'epoch': '3'}",
        "accuracy",
        0.91,
    ),
    # fairseq: github.com/facebookresearch/fairseq/issues/301, 514, 559, 940
    LogLine("fairseq", "| epoch 005 | valid on 'valid' subset | valid loss 3.13 | valid ppl 8.78", "loss", 3.13),
    LogLine("fairseq", "| epoch 005 | valid on 'valid' subset | valid loss 3.13 | valid ppl 8.78", "ppl", 8.78),
    LogLine(
        "fairseq",
        "| epoch 008 | valid on 'valid' subset | valid_loss 6.43844 | valid_nll_loss 5.23288 | valid_ppl 37.61 | "
        "num_updates 21896 | best 6.43844",
        "valid_loss",
        6.43844,
    ),
    LogLine(
        "fairseq",
        "| epoch 001 | valid on 'valid' subset | loss 10.073 | nll_loss 9.216 | ppl 594.56 | num_updates 368",
        "perplexity",
        594.56,
    ),
    LogLine(
        "fairseq",
        "| epoch 009:   1000 / 2737 loss=6.220, nll_loss=5.070, ppl=33.60, num_updates=22897, lr=0.000208983",
        "loss",
        None,
    ),
    LogLine(
        "fairseq",
        "| epoch 005 | train loss 2.92 | train ppl 7.59 | s/checkpoint    7748 | words/s    961 | lr 0.001000",
        "loss",
        None,
    ),
    # nanoGPT: github.com/karpathy/nanoGPT/issues/215
    LogLine("nanoGPT", "step 3000: train loss 4.0390, val loss 4.0427", "val_loss", 4.0427, "step"),
    LogLine("nanoGPT", "step 3000: train loss 4.0390, val loss 4.0427", "loss", 4.0427, "step"),
    LogLine("nanoGPT", "iter 2990: loss 3.8853, time 1096.65ms, mfu 15.34%", "loss", 3.8853, "step"),
    LogLine("nanoGPT", "iter 2990: loss 3.8853, time 1096.65ms, mfu 15.34%", "val_loss", None, "step"),
    # Megatron-LM: github.com/epfLLM/Megatron-LLM/issues/11; the validation line by the format of its source
    LogLine(
        "Megatron-LM",
        " iteration      201/  250000 | consumed samples:       205824 | elapsed time per iteration (ms): 139113.4 | "
        "learning rate: 1.507E-05 | global batch size:  1024 | lm loss: 2.373574E+00 | loss scale: 1.0 |",
        "loss",
        2.373574,
        "step",
    ),
    LogLine(
        "Megatron-LM",
        " validation loss at iteration 1000 | lm loss value: 2.412345E+00 | lm loss PPL: 1.116010E+01 |",
        "loss",
        2.412345,
        "step",
    ),
    # Keras: github.com/ageron/handson-ml2/issues/277 and keras-team/keras/issues/7789: the epoch is on another line
    LogLine(
        "Keras",
        "1719/1719 [==============================] - 1s 812us/step - loss: 0.7237 - accuracy: 0.7644 - "
        "val_loss: 0.5207 - val_accuracy: 0.8234",
        "val_accuracy",
        None,
    ),
    LogLine("Keras", "Epoch 1/30", "accuracy", None),
    LogLine(
        "Keras", "Epoch 00002: val_loss improved from 2.27473 to 1.17815, saving model to WeightsV2.h5", "loss", None
    ),
    # torchtitan: github.com/pytorch/torchtitan/pull/2389
    LogLine(
        "torchtitan",
        "[titan] 2026-02-24 19:46:17,508 - root - INFO - step:  4  loss:  7.62585  grad_norm: 26.6250  "
        "memory: 66.91GiB(37.51%)  tps: 10,050  tflops: 314.71  mfu: 13.99%",
        "loss",
        7.62585,
        "step",
    ),
    LogLine(
        "torchtitan",
        "[titan] 2026-02-24 19:46:17,508 - root - INFO - step:  4  loss:  7.62585  grad_norm: 26.6250  "
        "memory: 66.91GiB(37.51%)  tps: 10,050  tflops: 314.71  mfu: 13.99%",
        "accuracy",
        None,
        "step",
    ),
    # OpenNMT-py: github.com/OpenNMT/OpenNMT-py/issues/966, 709 and OpenNMT/issues/85
    LogLine(
        "OpenNMT",
        "[2018-09-20 15:18:39,264 INFO] Step 380000/1000000; acc:  42.02; ppl: 55.22; xent: 4.01; lr: 0.00000;",
        "perplexity",
        55.22,
        "step",
    ),
    LogLine(
        "OpenNMT",
        "[2018-09-20 15:18:39,264 INFO] Step 380000/1000000; acc:  42.02; ppl: 55.22; xent: 4.01; lr: 0.00000;",
        "accuracy",
        42.02,
        "step",
    ),
    LogLine("OpenNMT", "[2018-09-20 15:18:47,173 INFO] Validation perplexity: 56.168", "perplexity", None),
    LogLine("OpenNMT", "Epoch  1, 12850/37527; acc:   3.99; ppl: 12792.57; xent:   9.46; 3438 src tok/s", "ppl", None),
    # LightGBM: github.com/energeeks/ashrae-energy-prediction/pull/63: no word counts the progress
    LogLine("LightGBM", "[25]    train_loss's rmse: 1.32994      eval's rmse: 1.34434", "rmse", None),
    # SpeechBrain: github.com/speechbrain/speechbrain/pull/2216, 1892, 2191
    LogLine(
        "SpeechBrain",
        "epoch: 1, lr: 1.00e+00 - train loss: 9.45e-01 - valid loss: 1.23, valid CER: 35.42, valid WER: 39.14",
        "wer",
        39.14,
    ),
    LogLine(
        "SpeechBrain",
        "epoch: 1, lr: 1.00e+00 - train loss: 9.45e-01 - valid loss: 1.23, valid CER: 35.42, valid WER: 39.14",
        "loss",
        1.23,
    ),
    LogLine(
        "SpeechBrain",
        "epoch: 2, lr: 7.19e-05, steps: 3594, optimizer: Adam - train loss: 2.54e+02 - valid loss: 1.69e+02, "
        "valid ACC: 2.58e-01",
        "accuracy",
        0.258,
    ),
    # Lightning: github.com/Lightning-AI/pytorch-lightning/issues/4225, 14094; the last by the same format
    LogLine(
        "Lightning", "Epoch 0:  22%|██▏       | 4/18 [00:17<01:02,  4.47s/it, loss=10.072, v_num=193315]", "loss", None
    ),
    LogLine(
        "Lightning",
        "Epoch 0:  92%|███▉   | 932/1016 [00:33<00:03, 27.70it/s, loss=0.223, v_num=77, acc=0.875]",
        "accuracy",
        None,
    ),
    LogLine(
        "Lightning",
        "Epoch 3: 100%|████| 1016/1016 [00:36<00:00, loss=0.223, v_num=77, acc=0.875, val_loss=0.21, val_acc=0.93]",
        "accuracy",
        0.93,
    ),
    # the examples of PyTorch: github.com/yjh0410/pytorch-imagenet/issues/1
    LogLine(
        "PyTorch examples",
        "Epoch: [0][  400/80073]\tTime  0.315 ( 0.372)\tLoss 6.9802e+00 (7.0827e+00)\tAcc@1   0.00 (  0.08)",
        "accuracy",
        None,
    ),
    # DeiT and its children: github.com/yuhuan-wu/P2T/issues/13
    LogLine(
        "DeiT",
        '{"train_lr": 7.893e-05, "train_loss": 3.195464231282306, "test_loss": 0.9325173419554115, '
        '"test_acc1": 78.83600243652344, "test_acc5": 94.46600252929687, "epoch": 250, "n_parameters": 11590840}',
        "accuracy",
        78.83600243652344,
    ),
    LogLine(
        "DeiT",
        '{"train_lr": 8.159469122054745e-05, "train_loss": 3.20298746091237, "epoch": 249, "n_parameters": 11590840}',
        "loss",
        None,
    ),
    # icefall: github.com/k2-fsa/icefall/issues/320
    LogLine(
        "icefall",
        "2022-04-21 08:48:49,529 INFO [train.py:544] Epoch 0, validation: ctc_loss=1.524, att_loss=0.946, loss=1.062, "
        "over 760000 frames.",
        "loss",
        1.062,
    ),
    LogLine(
        "icefall",
        "2022-06-08 08:10:31,157 INFO [train.py:815] Epoch 1, batch 1, loss[loss=0.7711, simple_loss=1.542, over 5263 "
        "frames.], tot_loss[loss=0.8632, simple_loss=1.726, over 10495.15 frames.], batch size: 21",
        "loss",
        None,
    ),
    # LightGBM on several machines: github.com/lightgbm-org/LightGBM/issues/886
    LogLine("LightGBM", "[LightGBM] [Info] Iteration:18, valid_1 auc : 0.652581", "auc", 0.652581, "step"),
    LogLine("LightGBM", "[LightGBM] [Info] Iteration:18, training auc : 0.652066", "auc", None, "step"),
    LogLine(
        "LightGBM",
        "[LightGBM] [Info] Iteration:18, valid_1 binary_logloss : 0.200636",
        "binary_logloss",
        0.200636,
        "step",
    ),
]
