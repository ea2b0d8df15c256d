"""Running a placement: a pipeline of stages, each shared by units of one type of device.

    shards ─▶ stage 0 ─activations▶ stage 1 ─▶ ... ─▶ last stage: loss
                 ◀────────────────gradients───────────────┘

One process is one unit. `layers` says what a network is, `order` who does what when, `channels` how
tensors travel, `tables` where embeddings live, `unit` what a process computes; `train` is the program.
`ctr` holds the networks that are trained so, and `clicks` what they learn from.
"""
