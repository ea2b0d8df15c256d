"""What the joint paper prints (Chinese Journal of Computers 45(2), 2022): its Figure 4 and Tables 2 to 11."""

from __future__ import annotations

from dataclasses import dataclass

# Errors (MRE) of seconds per epoch and of accuracy; the figure is read in words only.
ERRORS = {
    "lenet5": ("below 5.7 %", "1.65 %"),
    "cifar10dnn": ("5.7-6.6 %", "1.41-1.5 %"),
    "resnet18": ("5.7-6.6 %", "1.41-1.5 %"),
    "vgg19": ("5.7-6.6 %", "1.41-1.5 %"),
}

# Tables 2 to 5: seconds, workers, and the batches of LB-BSP, Bayesian and joint.
FIXED_TIME = {
    "cifar10dnn": (
        (2000, 10, 512, 256, 128),
        (3000, 7, 512, 256, 64),
        (4000, 6, 512, 128, 128),
        (6000, 4, 512, 64, 64),
    ),
    "resnet18": ((1000, 8, 512, 128, 256), (2000, 6, 512, 128, 256), (3000, 5, 512, 64, 256), (4000, 4, 512, 32, 64)),
    "lenet5": ((50, 4, 256, 64, 128), (70, 3, 256, 64, 64), (100, 2, 256, 64, 32), (200, 1, 256, 64, 16)),
    "vgg19": ((13000, 3, 256, 64, 32), (15000, 4, 256, 64, 32), (18000, 3, 256, 256, 16), (20000, 7, 256, 128, 64)),
}

# Tables 6 to 9: target, workers of joint, and batch (x workers) of LB-BSP, Bayesian, Cynthia and joint.
FIXED_ACCURACY = {
    "cifar10dnn": (
        (0.945, 3, 512, 16, "32 x 2", 32),
        (0.955, 3, 512, 64, "32 x 3", 32),
        (0.975, 5, 512, 128, "32 x 4", 64),
        (0.985, 9, 512, 256, "32 x 8", 64),
    ),
    "resnet18": (
        (0.945, 3, 512, 64, "32 x 3", 128),
        (0.965, 5, 512, 128, "32 x 4", 64),
        (0.975, 6, 512, 128, "32 x 6", 64),
        (0.985, 7, 512, 256, "32 x 6", 32),
    ),
    "lenet5": (
        (0.965, 2, 256, 16, "32 x 2", 32),
        (0.975, 2, 256, 32, "32 x 2", 64),
        (0.985, 3, 256, 64, "32 x 3", 128),
        (0.987, 4, 256, 64, "32 x 4", 128),
    ),
    "vgg19": (
        (0.75, 2, 256, 32, "32 x 2", 16),
        (0.78, 4, 256, 64, "32 x 3", 16),
        (0.80, 5, 256, 64, "32 x 4", 16),
        (0.85, 6, 256, 128, "32 x 5", 64),
    ),
}


METHODS = ("manual", "lb_bsp", "bayesian", "cynthia", "joint")


@dataclass(frozen=True, slots=True)
class Cost:
    """One part of Table 11: the goal, and batch, workers and seconds of each method."""

    deadline: int
    accuracy: float
    chosen: dict[str, tuple[int, int, float]]

    def cells(self, method: str) -> tuple[object, ...]:
        """Return batch, workers, seconds and cost of a method as the paper prints them."""
        if method not in self.chosen:
            return "", "", "", ""
        batch, workers, seconds = self.chosen[method]
        late = " late" if seconds > self.deadline else ""
        return batch, workers, f"{seconds:,.0f}{late}", f"{workers * seconds:,.0f}"


def _cost(deadline: int, accuracy: float, *methods: tuple[int, int, float]) -> Cost:
    return Cost(deadline, accuracy, dict(zip(METHODS, methods, strict=True)))


# Tables 10 and 11. Of the three manual rows the cheapest stands here.
COSTS = {
    "cifar10dnn": (
        _cost(
            4000, 0.963, (256, 4, 4642.87), (512, 5, 3612.77), (256, 6, 3349.422), (32, 4, 4095.21), (64, 4, 3773.01)
        ),
        _cost(
            5000, 0.983, (512, 4, 6427.96), (512, 5, 5315.81), (256, 7, 3788.224), (32, 6, 4582.73), (128, 6, 4064.32)
        ),
    ),
    "resnet18": (
        _cost(2000, 0.947, (32, 7, 1739.40), (512, 4, 3417.63), (128, 7, 1969.113), (32, 6, 1939.23), (256, 6, 1775.2)),
        _cost(
            3000, 0.970, (64, 6, 2637.81), (512, 4, 3669.54), (128, 6, 2563.488), (32, 5, 3067.45), (256, 5, 2671.23)
        ),
    ),
    "lenet5": (
        _cost(70, 0.973, (32, 2, 86.80), (256, 3, 68.71), (64, 4, 60.58), (32, 3, 70.47), (64, 3, 64.01)),
        _cost(140, 0.985, (256, 2, 182.47), (256, 3, 157.41), (64, 4, 121.80), (32, 3, 142.34), (128, 3, 118.73)),
    ),
    "vgg19": (
        _cost(
            14000,
            0.800,
            (128, 4, 16156.73),
            (256, 6, 14159.25),
            (64, 5, 14142.91),
            (32, 5, 15588.96),
            (16, 5, 13742.46),
        ),
        _cost(
            18000,
            0.850,
            (128, 5, 22914.90),
            (256, 5, 23039.414),
            (128, 6, 19351.344),
            (32, 6, 18686.384),
            (64, 6, 15473.249),
        ),
    ),
}
