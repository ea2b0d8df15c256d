"""What a training script says of itself, read and never run: its defaults, its optimiser, its framework.

    parser.add_argument("--lr", default=3e-4)          argparse and click, with the flag that sets it
    learning_rate: float = 3e-4                        dataclasses and plain settings
    TrainingArguments(learning_rate=3e-4)              keywords of a framework's own arguments, and its own defaults
    class Net(LightningModule): __init__(self, lr=0.1) what Lightning's modules are made with
    batch_size = 12 ... configurator.py                globals, which nanoGPT's way lets flags set
    --config train.yaml, --lr 3e-4                     a file and words of the command, which win over the script
    --iterations {steps}                               a placeholder says what its flag sets, whatever its name
    python -m package.train                            package/train.py, or package/train/__main__.py
    ./train.sh 64                                      the first Python script that it calls

Nothing is guessed: a number that stands nowhere is None.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from cotune.jobfile import metric_names
from cotune.jobfile.script_talk import called, computed_metrics, printed_lines, workers_meet
from cotune.jobfile.wrapper import called_scripts, hands_on, shell_scripts
from cotune.safety import python_text, yaml_text

Setting = Literal["batch_size", "lr", "epochs", "steps", "tokens", "accumulate", "seed"]
Framework = Literal["transformers", "lightning", "accelerate"]

_PEAKS = ("max_lr", "peak_lr", "max_learning_rate", "peak_learning_rate")  # the rate where a script names no other
_NAMES: dict[Setting, tuple[str, ...]] = {
    "batch_size": (
        *("batch_size", "per_device_train_batch_size", "train_batch_size", "batchsize", "bs", "micro_batch_size"),
        *("per_gpu_train_batch_size", "per_device_batch_size", "per_device_batch", "device_batch_size"),
        *("local_batch_size", "batch", "bsz", "b"),
    ),
    "lr": ("lr", "learning_rate", "base_lr", *_PEAKS),
    "epochs": ("epochs", "num_train_epochs", "max_epochs", "num_epochs", "n_epochs", "epoch"),
    "steps": (
        *("max_steps", "max_iters", "num_steps", "train_steps", "train_iters", "max_train_steps", "total_steps"),
        "steps",
    ),
    "tokens": ("max_tokens", "train_tokens", "total_tokens", "num_tokens"),
    "accumulate": ("gradient_accumulation_steps", "accumulate_grad_batches", "grad_accum", "accumulation_steps"),
    "seed": ("seed", "rng", "random_seed", "rng_seed", "manual_seed"),
}
_ADAM = re.compile(
    r"\b(?:Adam|AdamW|RAdam|NAdam|Adamax|Adam8bit|AdamW8bit|FusedAdam|Adagrad|Adafactor|LAMB|Lamb|Lion|RMSprop|Sophia\w*)\b"
    r"|\b(?:adam|adamw|adafactor|adagrad|rmsprop|lion|lamb)(?:_\w+)?\b"
)
_SGD = re.compile(r"\bSGD\b|\bsgd\b")
_ROOTS: dict[str, Framework] = {
    "transformers": "transformers",
    "trl": "transformers",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "accelerate": "accelerate",
}
_TRAINER = re.compile(r"\b(?:\w*Trainer|\w*TrainingArguments|SFTConfig)\b")
_OWN_LOOPS: tuple[Framework, ...] = ("lightning", "accelerate")
_CONFIGURATOR = "configurator.py"
_MODULES = ("LightningModule", "LightningDataModule")
_EVALUATES = re.compile(r"\beval(?:uation)?[_-]strategy[\"']?[\s=:]+[\"']?(?!no\b)\w")  # in code, a command or a file
_WATCHED = re.compile(
    r"\b(?:(?:monitor|metric_for_best_model)[\"']?\s*[=:]|EarlyStopping\((?=\s*[\"']))\s*[\"']?([\w/.-]+)"
)  # what is best
_LOGGED = re.compile(r"\bself\.log(?:_dict)?\(\s*(\{[^}]*\}|[\"'][\w/.-]+[\"'])")
_LOGGED_TOGETHER = re.compile(r"\baccelerator\.log\(\s*(\{[^}]*\})")
_OWN_DEFAULTS: dict[str, dict[str, float]] = {  # of the arguments of transformers 5 and TRL 1
    "TrainingArguments": {"per_device_train_batch_size": 8, "learning_rate": 5e-5, "num_train_epochs": 3},
    "SFTConfig": {"per_device_train_batch_size": 8, "learning_rate": 2e-5, "num_train_epochs": 3},
}
_OPTIMISER_FLAGS = ("--optimizer", "--optimiser", "--optim", "--opt")
_FRAMEWORK_DEFAULT = "AdamW, which transformers takes by default"
_MOST_BYTES = 1_000_000  # of a script or a file of settings


@dataclass(frozen=True, slots=True)
class Default:
    """A number that a script or its command names, the flag that sets it where there is one, and where it stands."""

    value: float
    where: str
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class Optimiser:
    """The optimiser that a script names, and whether it scales each parameter by itself, as Adam does."""

    name: str
    adam_like: bool
    where: str


@dataclass(frozen=True, slots=True)
class Script:
    """What was read of a command's script."""

    name: str
    defaults: dict[Setting, Default]
    optimiser: Optimiser | None
    framework: Framework | None
    flags: dict[Setting, str]  # that set a number, whether or not it has a default; one that ends in = takes it so
    evaluates_accuracy: bool
    metrics: tuple[str, ...] = ()  # that its framework will tell, as far as can be read
    meets: bool = True  # whether several workers may share the work, as far as can be read
    reports: bool = False  # whether it calls cotune.report
    prints: tuple[str, ...] = ()  # lines as it prints them, a number wherever it puts a value
    epoch_lines: tuple[str, ...] = ()  # those of them that begin with a count of epochs in brackets


def file_of(command: Sequence[str], folder: Path) -> Path | None:
    """Return the Python file that a command runs, by its path, as a module or by a shell script, if it can be read."""
    for word, after in pairwise((*command, "")):
        path = _module_file(after, folder) if word == "-m" else folder / word
        if path is not None and path.suffix == ".py":
            return path if _is_readable(path) else None
    called = called_scripts(command, folder)
    return next((path for path in called if path.suffix == ".py" and _is_readable(path)), None)


def script_files(command: Sequence[str], folder: Path) -> list[Path]:
    """Return the scripts of a command: those that it names, what its module is, and what its shell scripts call."""
    named = [folder / word for word in command if word.endswith((".py", ".sh"))]
    module = file_of(command, folder)
    behind = [*shell_scripts(command, folder), *called_scripts(command, folder)]
    every = dict.fromkeys([*named, *([module] if module else []), *behind])
    return [path for path in every if _is_readable(path)]


def _is_readable(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= _MOST_BYTES


def _module_file(module: str, folder: Path) -> Path | None:
    """Return the file of a module that lies in the folder."""
    if not all(part.isidentifier() for part in module.split(".")):
        return None
    path = folder.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__main__.py") if file.is_file()), None)


def read(command: Sequence[str], folder: Path) -> Script | None:
    """Return what the command's Python script says, or None where there is no script to read."""
    path = file_of(command, folder)
    if path is None:
        return None
    text = path.read_text(errors="replace")
    framework: Framework | None = None
    meets, prints, by_epoch, computed = True, tuple[str, ...](), tuple[str, ...](), tuple[str, ...]()
    try:
        tree = python_text.parse(text, str(path))
        stated, framework = list(_stated(tree, path.name, _asked(command))), _framework(tree, text)
        meets, prints = framework is not None or workers_meet(path, tree, text), printed_lines(tree)
        by_epoch, computed = printed_lines(tree, only_epochs=True), computed_metrics(tree)
    except (SyntaxError, ValueError, RecursionError):
        stated = []
    if _CONFIGURATOR in text:
        stated = [(name, replace(found, flag=_global_flag(found))) for name, found in stated]
    stated = _without_peaks([*stated, *_in_files(command, folder), *_in_command(command)])
    defaults: dict[Setting, Default] = {}
    flags: dict[Setting, str] = {}
    for setting, found in stated:
        flags |= {setting: found.flag} if found.flag else {}
        if found.value > 0 and setting != "seed":
            defaults[setting] = Default(found.value, found.where, flags.get(setting))
    flags = flags if hands_on(command, folder) else {}
    optimiser = _optimiser(command, text, path.name, framework)
    accurate = re.search(r"\bacc(?:uracy)?\b", text) is not None
    everywhere = "\n".join([text, " ".join(command), *_settings_files(command, folder).values()])
    told = _metrics(framework, everywhere, computed)
    reports = "cotune.report" in text
    return Script(path.name, defaults, optimiser, framework, flags, accurate, told, meets, reports, prints, by_epoch)


def _global_flag(found: Default) -> str | None:
    """Return the flag that sets a global by nanoGPT's configurator: `--batch_size=`."""
    return found.flag or f"--{found.where.partition(' ')[0]}="


def _metrics(framework: Framework | None, text: str, computed: Sequence[str]) -> tuple[str, ...]:
    """Return the metrics that a script hands to its framework by name.

    What it judges its best by comes first, then what it works out itself, of held-out data before others.
    """
    watched = _WATCHED.findall(text)
    if framework == "transformers":
        if not _EVALUATES.search(text):
            return ()
        told = dict.fromkeys([*(f"eval_{name.removeprefix('eval_')}" for name in computed), "eval_loss"])
        return tuple(sorted(told, key=lambda name: not {name, name.removeprefix("eval_")} & set(watched)))
    sign = {"lightning": _LOGGED, "accelerate": _LOGGED_TOGETHER}.get(framework or "")
    calls = sign.findall(text) if sign else []
    names = dict.fromkeys(name for call in calls for name in re.findall(r"[\"']([\w/.-]+)[\"']", call))
    return tuple(sorted(names, key=lambda name: (name not in watched, not metric_names.is_held_out(name))))


def _framework(tree: ast.Module, text: str) -> Framework | None:
    """Return whose training loop a script runs: who only takes a model from transformers has another."""
    imported: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [(name.name.partition(".")[0], "") for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported += [(node.module.partition(".")[0], name.name) for name in node.names]
    whole = {root for root, name in imported if not name}
    trains = any(_ROOTS.get(root) == "transformers" and _TRAINER.search(name) for root, name in imported)
    trains |= bool(re.search(r"\b(?:transformers|trl)\.\w*Trainer\b", text)) and bool(whole & {"transformers", "trl"})
    if trains:
        return "transformers"
    roots = {_ROOTS[root] for root, _ in imported if root in _ROOTS}
    return next((name for name in _OWN_LOOPS if name in roots), None)


def _without_peaks(stated: Sequence[tuple[Setting, Default]]) -> list[tuple[Setting, Default]]:
    """Return the numbers without the peak of a schedule, where a plain learning rate is stated too."""
    peaks = [place for place, (setting, found) in enumerate(stated) if setting == "lr" and _is_peak(found)]
    plain = any(setting == "lr" and not _is_peak(found) for setting, found in stated)
    return [one for place, one in enumerate(stated) if not (plain and place in peaks)]


def _is_peak(found: Default) -> bool:
    return found.where.partition(" ")[0].lstrip("-").replace("-", "_").lower() in _PEAKS


def _setting(name: str) -> Setting | None:
    plain = name.lstrip("-").replace("-", "_").lower()
    return next((setting for setting, names in _NAMES.items() if plain in names), None)


def _asked(command: Sequence[str]) -> dict[str, Setting]:
    """Return the flags after which the command has a placeholder, and what each sets."""
    words = [part for word in command for part in word.split("=", 1)]
    return {
        flag: setting
        for flag, after in pairwise(words)
        for setting in _NAMES
        if flag.startswith("-") and after == f"{{{setting}}}"
    }


def _stated(tree: ast.Module, script: str, asked: Mapping[str, Setting]) -> Iterator[tuple[Setting, Default]]:
    """Yield the numbers that a script states: settings of the module first, so that flags win over them."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    yield from _made_with(tree, script)
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield from _number(node.target.id, _field(node.value), script)
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                yield from _number(target.id, statement.value, script)
    for call in calls:
        name = called(call)
        if name.endswith(("Arguments", "Config", "Trainer")):
            yield from _own_defaults(call, name)
            for word in call.keywords:
                yield from _number(word.arg or "", word.value, f"{name} of {script}")
    for call in calls:
        if called(call) in ("add_argument", "option"):
            yield from _flagged(call, script, asked)


def _made_with(tree: ast.Module, script: str) -> Iterator[tuple[Setting, Default]]:
    """Yield the numbers that Lightning's modules are made with by default."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or not any(ast.unparse(base).endswith(_MODULES) for base in node.bases):
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                names = [word.arg for word in method.args.args][-len(method.args.defaults) or None :]
                for name, value in zip(names, method.args.defaults, strict=False):
                    yield from _number(name, value, f"{node.name} of {script}")


def _own_defaults(call: ast.Call, arguments: str) -> Iterator[tuple[Setting, Default]]:
    """Yield what a framework's arguments are where a script does not say, unless it hands over words we cannot read."""
    said = {word.arg for word in call.keywords}
    if None in said:
        return
    own = _OWN_DEFAULTS.get(arguments, {})
    for name, value in own.items():
        setting = _setting(name)
        if setting is not None and name not in said and not (setting == "epochs" and "max_steps" in said):
            yield setting, Default(value, f"{arguments}'s own default")


def _field(value: ast.expr) -> ast.expr | None:
    """Return the default of a dataclass's field, or the value itself."""
    if isinstance(value, ast.Call) and called(value) in ("field", "Field"):
        return next((word.value for word in value.keywords if word.arg == "default"), None)
    return value


def _flagged(call: ast.Call, script: str, asked: Mapping[str, Setting]) -> Iterator[tuple[Setting, Default]]:
    """Yield the number that a flag of argparse or click sets; it is 0 where it has no default."""
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    long = [name for name in names if name.startswith("-")]
    setting = next((found for name in long if (found := asked.get(name) or _setting(name)) is not None), None)
    if setting is None:
        return
    default = next((word.value for word in call.keywords if word.arg == "default"), None)
    if setting == "seed" and isinstance(default, ast.Constant) and isinstance(default.value, str | bool):
        return
    flag = next((name for name in long if name in asked), max(long, key=len))
    yield setting, Default(_value(default) or 0.0, f"{flag} of {script}", flag)


def _number(name: str, value: ast.expr | None, where: str) -> Iterator[tuple[Setting, Default]]:
    setting, number = _setting(name), _value(value)
    if setting is not None and number is not None:
        yield setting, Default(number, f"{name} of {where}")


def _value(node: ast.expr | None) -> float | None:
    """Return a plain number, also as a product or a power of such (5 * 8, 2**10)."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Pow):
        left, right = _value(node.left), _value(node.right)
        if left is None or right is None or (isinstance(node.op, ast.Pow) and abs(right) > 64):
            return None
        return left * right if isinstance(node.op, ast.Mult) else float(left**right)
    return None


def _in_files(command: Sequence[str], folder: Path) -> Iterator[tuple[Setting, Default]]:
    """Yield the numbers of the YAML and JSON files that a command names."""
    for file, text in _settings_files(command, folder).items():
        try:
            raw = yaml_text.read(text)
        except yaml_text.NotYaml:
            continue
        for name, value in _entries(raw):
            setting = _setting(name)
            if setting is not None:
                yield setting, Default(value, f"{name} of {file}")


def _settings_files(command: Sequence[str], folder: Path) -> dict[str, str]:
    """Return the text of the YAML and JSON files that a command names, by their names."""
    named = (folder / word.rpartition("=")[2] for word in command if word.endswith((".yaml", ".yml", ".json")))
    files = (path for path in named if path.is_file() and path.stat().st_size <= _MOST_BYTES)
    return {path.name: path.read_text(errors="replace") for path in files}


def _entries(raw: object) -> Iterator[tuple[str, float]]:
    if not isinstance(raw, dict):
        return
    for name, value in raw.items():
        if isinstance(value, dict):
            yield from _entries(value)
        elif (number := _as_number(value)) is not None:
            yield str(name), number


def _in_command(command: Sequence[str]) -> Iterator[tuple[Setting, Default]]:
    """Yield the numbers that stand in the command itself: `--lr 0.1`, `--lr=0.1` and `lr=0.1`."""
    for word, after in zip(command, (*command[1:], ""), strict=True):
        name, sign, value = word.partition("=")
        number = _as_number(value if sign else after)
        setting = _setting(name) if name.startswith("-") or sign else None
        if setting is not None and number is not None:
            yield setting, Default(number, f"{name} of the command", name if name.startswith("-") else None)


def _as_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _optimiser(command: Sequence[str], text: str, script: str, framework: Framework | None) -> Optimiser | None:
    """Return the optimiser that the command names, or else the only kind that the script does."""
    for word, after in zip(command, (*command[1:], ""), strict=True):
        name, sign, value = word.partition("=")
        if name in _OPTIMISER_FLAGS:
            chosen = value if sign else after
            if _ADAM.search(chosen) or _SGD.search(chosen):
                return Optimiser(chosen, _SGD.search(chosen) is None, "the command")
    adam, sgd = _ADAM.search(text), _SGD.search(text)
    if adam and not sgd:
        return Optimiser(adam[0], True, script)
    if sgd and not adam:
        return Optimiser(sgd[0], False, script)
    if framework == "transformers" and not sgd:
        return Optimiser(_FRAMEWORK_DEFAULT, True, script)
    return None
