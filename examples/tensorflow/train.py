"""LeNet-5 on handwritten digits in TensorFlow: its own training loop, synchronous or with parameter servers.

    cotune profile && cotune plan --target accuracy=0.95 && cotune run
    cotune run -w 4 -b 32 --axis strategy=parameter_server

The digits are the 1,797 real ones that scikit-learn ships, enlarged threefold to the 28 x 28 that LeNet-5 takes.

cotune tells every process who it is by TF_CONFIG, which lists them all as workers. Mirrored
workers take it as it is. For parameter servers rank 0 becomes the coordinator, which trains
and reports, rank 1 the server, and the others the workers that it sends steps to.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import cotune

EXAMPLES, SIDE, CLASSES = 1437, 28, 10  # the other 360 digits are for testing
THREADS = 8  # a worker on one core would have one thread, and servers that wait for each other need more

parser = argparse.ArgumentParser()
parser.add_argument("--strategy", choices=["mirrored", "parameter_server"], default="mirrored")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--lr", type=float, default=0.1)
flags = parser.parse_args()


def data() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return pictures and labels to train on and to test with."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    large = np.kron(digits.images / 16, np.ones((1, 3, 3)))[order]
    pictures = np.pad(large, ((0, 0), (2, 2), (2, 2)))[..., None].astype("f")
    labels = digits.target[order]
    return (pictures[:EXAMPLES], labels[:EXAMPLES]), (pictures[EXAMPLES:], labels[EXAMPLES:])


class Model(tf.Module):
    """LeNet-5 (LeCun et al., 1998), and its own plain descent."""

    def __init__(self) -> None:
        draw = tf.random.Generator.from_seed(0)
        shapes = [(5, 5, 1, 6), (5, 5, 6, 16), (5 * 5 * 16, 120), (120, 84), (84, CLASSES)]
        self.weights = [tf.Variable(draw.normal(shape) * (2 / np.prod(shape[:-1])) ** 0.5) for shape in shapes]
        self.biases = [tf.Variable(tf.zeros(shape[-1])) for shape in shapes]

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        for number, padding in ((0, "SAME"), (1, "VALID")):
            x = tf.nn.conv2d(x, self.weights[number], 1, padding) + self.biases[number]
            x = tf.nn.avg_pool2d(tf.nn.relu(x), 2, 2, "VALID")
        x = tf.reshape(x, (-1, 5 * 5 * 16))
        for number in (2, 3):
            x = tf.nn.relu(x @ self.weights[number] + self.biases[number])
        return x @ self.weights[4] + self.biases[4]

    def gradients(self, x: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self(x)))
        return tape.gradient(loss, [*self.weights, *self.biases])

    def descend(self, gradients: list[tf.Tensor]) -> None:
        for variable, gradient in zip([*self.weights, *self.biases], gradients, strict=True):
            variable.assign_sub(flags.lr * gradient)

    def accuracy(self, x: np.ndarray, labels: np.ndarray) -> float:
        return float(np.mean(tf.argmax(self(x), axis=1).numpy() == labels))


def batches(share: int, shares: int) -> tf.data.Dataset:
    """Return this worker's share of the training data, shuffled anew without end."""
    (x, labels), _ = data()
    mine = tf.data.Dataset.from_tensor_slices((x[share::shares], labels[share::shares]))
    return mine.shuffle(EXAMPLES, seed=share).repeat().batch(flags.batch_size, drop_remainder=True)


def train(model: Model, epoch_of_steps: Callable[[int], object], workers: int) -> None:
    """Train epoch by epoch, and report."""
    _, test = data()
    steps = EXAMPLES // (flags.batch_size * workers)
    for epoch in range(1, flags.epochs + 1):
        epoch_of_steps(steps)
        began = time.monotonic()
        accuracy = model.accuracy(*test)
        print(f"epoch {epoch} accuracy {accuracy:.3f}", flush=True)
        if cotune.report(epoch=epoch, accuracy=accuracy, evaluation=time.monotonic() - began):
            break


def mirrored() -> None:
    """Train synchronously: gradients are averaged over all workers in each step."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    workers = strategy.num_replicas_in_sync
    with strategy.scope():
        model = Model()
    mine = iter(batches(strategy.cluster_resolver.task_id or 0, workers))

    @tf.function
    def step(x: tf.Tensor, labels: tf.Tensor) -> None:
        def replica(x: tf.Tensor, labels: tf.Tensor) -> None:
            gradients = model.gradients(x, labels)
            model.descend(tf.distribute.get_replica_context().all_reduce("mean", gradients))

        strategy.run(replica, args=(x, labels))

    cotune.report(epoch=0)
    train(model, lambda steps: [step(*next(mine)) for _ in range(steps)], workers)


def parameter_server() -> None:
    """Train asynchronously: the coordinator sends steps to whichever worker is free."""
    told = json.loads(os.environ["TF_CONFIG"])
    places, rank = told["cluster"]["worker"], told["task"]["index"]
    if len(places) < 3:
        raise SystemExit("parameter servers need at least 3 processes: a coordinator, a server and a worker")
    roles = [("chief", 0), ("ps", 0), *(("worker", index) for index in range(len(places) - 2))]
    cluster = tf.train.ClusterSpec({"chief": places[:1], "ps": places[1:2], "worker": places[2:]})
    kind, index = roles[rank]
    done = Path(os.environ["COTUNE_CHECKPOINT"]) / "done"
    if kind != "chief":
        threads = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=THREADS)
        server = tf.distribute.Server(cluster, job_name=kind, task_index=index, protocol="grpc", config=threads)
        while server and not done.exists():  # a server of TensorFlow never ends by itself
            time.sleep(0.1)
        os._exit(0)
    find = tf.distribute.cluster_resolver.SimpleClusterResolver
    resolver = find(cluster, rpc_layer="grpc", task_type="chief", task_id=0)
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    workers = len(places) - 2
    with strategy.scope():
        model = Model()
    shares = coordinator.create_per_worker_dataset(
        lambda: strategy.distribute_datasets_from_function(lambda context: batches(context.input_pipeline_id, workers))
    )
    each = iter(shares)

    @tf.function
    def step(iterator: tf.data.Iterator) -> None:
        strategy.run(lambda x, labels: model.descend(model.gradients(x, labels)), args=next(iterator))

    def epoch_of_steps(steps: int) -> None:
        for _ in range(steps * workers):
            coordinator.schedule(step, args=(each,))
        coordinator.join()

    cotune.report(epoch=0)
    train(model, epoch_of_steps, workers)
    done.touch()
    os._exit(0)  # the others are gone now, and TensorFlow would complain of each


if __name__ == "__main__":
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    {"mirrored": mirrored, "parameter_server": parameter_server}[flags.strategy]()
