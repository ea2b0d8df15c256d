"""What a step is counted to do, against definitions, torch's own counter and a real run."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.flop_counter import FlopCounterMode

from cotune.modelling.counting.counts import Counts
from cotune.modelling.counting.timing import Stepper, measure
from cotune.modelling.counting.trace import CannotCount, _Step, count
from cotune.modelling.counting.workload import Workload, sum_of_outputs
from cotune.modelling.workloads.catalogue import SHORT
from cotune.modelling.workloads.named import find

PRODUCTS = ("matmul", "convolution", "attention")


def workload(model: type[nn.Module], *shape: int) -> Workload:
    return Workload(model.__name__, model, lambda batch: (torch.randn(batch, *shape),), sum_of_outputs)


def products(name: str, batch: int) -> float:
    return sum((c.flops or 0) * c.calls for c in count(find(name), batch).calls if c.family in PRODUCTS)


def test_a_linear_layer_counts_what_its_definition_says() -> None:
    dense = Workload("dense", lambda: nn.Linear(30, 20), lambda b: (torch.randn(b, 30),), sum_of_outputs)
    found = count(dense, 7, optimiser="sgd")
    product = 2 * 7 * 30 * 20
    by_phase = {
        phase: sum((c.flops or 0) for c in found.calls if c.family == "matmul" and c.phase == phase)
        for phase in ("forward", "backward")
    }
    assert by_phase == {"forward": product, "backward": product}  # the data's gradient is not wanted
    assert found.parameters == 30 * 20 + 20
    assert found.gradient_bytes == 4 * found.parameters
    assert found.input_bytes == 4 * 7 * 30


def test_resnet50_counts_as_published() -> None:
    found = count(find("resnet50"), 2)
    per_example = sum((c.flops or 0) * c.calls for c in found.calls if c.family in PRODUCTS) / 2
    forward = sum((c.flops or 0) * c.calls for c in found.calls if c.family in PRODUCTS and c.phase == "forward") / 2
    assert found.parameters == 25_557_032
    assert forward == pytest.approx(8.178e9, rel=1e-3)
    assert per_example == pytest.approx(24.30e9, rel=1e-3)
    assert found.without_formula == {}


@pytest.mark.parametrize("name", ["lenet5", "memnet", "autoenc", "deepq"])
def test_products_agree_with_torchs_own_counter_on_a_real_step(name: str) -> None:
    stepper = Stepper(find(name), 3)
    with FlopCounterMode(display=False) as counter:
        stepper.step()
    assert products(name, 3) == counter.get_total_flops()


def test_a_traced_step_and_a_real_one_count_the_same() -> None:
    with torch.random.fork_rng():
        real = _Step(find("lenet5"), 4, "fp32", "momentum").counts("run")
    traced = count(find("lenet5"), 4)
    assert traced.how == "traced"
    assert set(real.calls) == set(traced.calls)
    assert real.peak_bytes == pytest.approx(traced.peak_bytes, rel=0.02)
    assert real.layers == traced.layers


def forward_flops(counts: Counts) -> float:
    return sum((call.flops or 0.0) * call.calls for call in counts.calls if call.phase == "forward")


def test_work_grows_with_the_batch_and_parameters_do_not() -> None:
    small, large = count(find("resnet18"), 2), count(find("resnet18"), 4)
    assert small.parameters == large.parameters
    assert small.operators == large.operators
    assert large.activation_bytes == pytest.approx(2 * small.activation_bytes, rel=1e-2)
    assert forward_flops(large) == pytest.approx(2 * forward_flops(small), rel=1e-3)
    assert small.peak_bytes < large.peak_bytes


def test_the_state_of_the_optimiser_is_in_the_peak() -> None:
    peaks = {kind: count(find("lenet5"), 2, optimiser=kind).peak_bytes for kind in ("sgd", "momentum", "adam")}
    weights = 4 * 61_706
    assert peaks["momentum"] - peaks["sgd"] == weights
    assert peaks["adam"] - peaks["momentum"] == weights


def test_half_precision_moves_fewer_bytes() -> None:
    whole, half = count(find("vgg19"), 64), count(find("vgg19"), 64, precision="bf16")
    assert half.activation_bytes < 0.8 * whole.activation_bytes
    assert any(call.dtype == "bfloat16" for call in half.calls if call.family == "convolution")


def test_layers_add_up_to_the_step() -> None:
    found = count(find("residual"), 2)
    update = sum((c.flops or 0) * c.calls for c in found.calls if c.phase == "update")
    assert sum(layer.flops for layer in found.layers) == pytest.approx(found.flops - update)
    assert sum(layer.parameters for layer in found.layers) == found.parameters
    assert sum(layer.activation_bytes for layer in found.layers) == found.activation_bytes


def of_layers(counts: Counts, phase: str, family: str) -> dict[str, float]:
    calls = [call for call in counts.calls if (call.phase, call.family) == (phase, family)]
    return {name: sum((c.flops or 0) * c.calls for c in calls if c.layer == name) for name in {c.layer for c in calls}}


def test_backward_belongs_to_the_layer_it_goes_through() -> None:
    found = count(find("resnet18"), 2)  # with ways around that do nothing, and an input that wants no gradient
    forward, backward = (of_layers(found, phase, "convolution") for phase in ("forward", "backward"))
    assert backward == {name: (1 if name == "Sequential.0" else 2) * flops for name, flops in forward.items()}
    words = count(find("memnet"), 2)  # whose inputs are whole numbers
    assert set(of_layers(words, "backward", "normalise")) == set(of_layers(words, "forward", "normalise"))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(16, 48)

    def forward(self, words: Tensor) -> Tensor:
        q, k, v = self.enter(words).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v)


def test_attention_on_a_cpu_is_counted_although_torch_counts_nothing() -> None:
    found = count(workload(Attention, 10, 16), 3)
    forward = [c for c in found.calls if c.family == "attention" and c.phase == "forward"]
    assert sum((c.flops or 0) * c.calls for c in forward) == 2 * 3 * 2 * 10 * 10 * (8 + 8)


class DataDependent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.layer(rows)
        if out.sum() > 1e9:
            return out
        return out[out[:, 0] > out[:, 0].median() - 1]


def test_a_model_whose_shapes_depend_on_numbers_is_run_and_says_so() -> None:
    found = count(workload(DataDependent, 8), 4)
    assert found.how == "run"
    assert "cannot be traced" in found.notes[-1]
    assert "DataDependent" in found.notes[-1]
    assert found.parameters == 72
    assert found.flops > 0


@torch.library.custom_op("cotune_tests::strange", mutates_args=())
def strange(x: Tensor) -> Tensor:
    return x * 2


@strange.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


strange.register_autograd(lambda _, grad: grad * 2)


class Strange(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, rows: Tensor) -> Tensor:
        return strange(self.layer(rows))


def test_an_operator_without_a_formula_is_named_and_its_bytes_count() -> None:
    found = count(workload(Strange, 8), 4)
    assert found.without_formula == {"cotune_tests.strange": 1}
    assert found.unknown_share == pytest.approx(2 * 4 * 8 * 4 / found.bytes)


@torch.library.custom_op("cotune_tests::blind", mutates_args=())
def blind(x: Tensor) -> Tensor:
    return x * 2


blind.register_autograd(lambda _, grad: grad * 2)


class Blind(Strange):
    def forward(self, rows: Tensor) -> Tensor:
        return blind(self.layer(rows))


def test_an_operator_that_knows_no_shapes_is_run() -> None:
    found = count(workload(Blind, 8), 4)
    assert found.how == "run"
    assert "cotune_tests.blind" in found.without_formula


class Broken(Strange):
    def forward(self, rows: Tensor) -> Tensor:
        self.layer(rows)
        raise ArithmeticError("never again")


def test_a_model_that_breaks_tells_what_was_known_until_there() -> None:
    with pytest.raises(CannotCount, match="never again") as caught:
        count(workload(Broken, 8), 4)
    assert caught.value.exit_code == 4
    assert caught.value.known["parameters"] == 72
    assert caught.value.known["operators_so_far"] == 1
    assert "Broken" in str(caught.value.known["stopped_in"])


@pytest.mark.parametrize("name", sorted(SHORT.keys() - {"seq2seq", "speech"}))  # slow, and trained in tests/workloads
def test_every_ready_made_model_can_be_counted(name: str) -> None:
    found = count(find(name), 1)
    assert found.flops > 0
    assert found.peak_bytes > found.gradient_bytes


def test_counting_a_large_batch_of_resnet50_takes_no_gigabytes() -> None:
    # Of a program that was started by a larger one, `ru_maxrss` is that one's.
    code = (
        "from pathlib import Path; from cotune.modelling.workloads.named import find;"
        "from cotune.modelling.counting.trace import count; count(find('resnet50'), 256);"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(shown) * 1024 < 1e9


def test_measured_steps_have_a_median_and_a_spread() -> None:
    found = measure(find("lenet5"), 2, seconds=0.2)
    assert found.seconds > 0
    assert (found.batch, found.workers) == (2, 1)
    assert found.spread >= 0
