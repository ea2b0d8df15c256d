"""Lines between the units of a pipeline, over a real socket and real shared memory."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import torch

from cotune.placement.pipeline.channels import Channel

CPU = torch.device("cpu")


def test_tensors_that_outgrow_their_ring_arrive_though_no_ring_was_opened_yet() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    sent = [torch.arange(float(size)) for size in (10, 5_000, 20, 100_000)]
    sender = Channel(near, CPU, "the receiver", slots=4)
    for tensor in sent:
        sender.send({"x": tensor})
    receiver = Channel(far, CPU, "the sender", slots=4)
    assert all(torch.equal(receiver.receive().flow["x"], tensor) for tensor in sent)
    with ThreadPoolExecutor() as both:  # each waits for the other's last word
        both.map(Channel.close, [sender, receiver])
