"""What a training script says of its job, read and never run.

    parser.add_argument("--lr", default=3e-4)                flags of argparse and click, and their defaults
    batch_size = 12; lr: float = 0.1; def fit(lr=0.1)        settings, fields and defaults of parameters
    TrainingArguments(learning_rate=3e-4), SGD(p, lr=0.1)    keywords of a framework's arguments and of optimisers
    python train.py --lr 3e-4 --config train.yaml            the command and the files that it names, which win

A number that is stated with two values is unknown, and so is one that is stated nowhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

from cotune.init.printing import called, printed_lines
from cotune.init.rate_schedule import ScriptSchedule, value_of
from cotune.jobfile import metric_names
from cotune.jobfile.scripts import imported_files, python_script
from cotune.safety import python_text, yaml_text
from cotune.types import Framework, Schedule, Unit

Setting = Literal["batch_size", "lr", "epochs", "steps", "accumulate", "seed"]
Value = TypeVar("Value")

_SETTINGS: tuple[tuple[Setting, re.Pattern[str]], ...] = (
    ("accumulate", re.compile(r"accum")),
    ("seed", re.compile(r"seed$")),
    ("lr", re.compile(r"^(?:base_|peak_|max_)?(?:lr|learning_rate)$")),
    ("epochs", re.compile(r"epochs?$")),
    ("steps", re.compile(r"^(?:\w+_)?(?:steps|iters|iterations)$")),
    ("batch_size", re.compile(r"batch(?:_?size)?$|^bs$|^b$")),
)
_OTHER = re.compile(
    r"(?:^|_)(?:eval|val|valid|test|log|logging|save|print|warmup|warmdown|cooldown|decay|global|patience)(?:$|_)"
)
_FRAMEWORKS: Mapping[str, Framework] = {
    "transformers": "transformers",
    "trl": "transformers",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "accelerate": "accelerate",
}
_TRAINER = re.compile(r"\b(?:transformers|trl)\b[^\n]*\b\w*Trainer\b")
_SELF_SCALING = re.compile(r"^(?:\w*Ada\w+|LAMB|Lamb|Lion|RMSprop|Sophia\w*)$")  # each parameter separately
_RATE = re.compile(r"(?:\b|_)(?:lr|learning_?rate)(?:\b|_)")
_SIZE = re.compile(r"batch|\bbsz?\b|world|worker|replica|num_?gpus|n_?gpus|device_?count|accum", re.IGNORECASE)
_GROUPS = re.compile(r"init_process_group|DataParallel|cotune\.torch|cotune import torch")
_SHARING = re.compile(r"WORLD_SIZE|\bRANK\b|TF_CONFIG|MultiWorker|jax\.distributed|mpi4py|horovod")
_VARIABLE = re.compile(r"COTUNE_([A-Z_]+)")
_NO_NUMBERS = {"REPORT", "STOP", "TARGET", "BETTER", "METRIC", "RESUME", "STORE", "DATA", "WORKERS"}
_OWN_READERS = (  # parts of cotune that read variables for a script
    ("checkpoint", re.compile(r"cotune\.callbacks|cotune\.workloads")),
    ("asynchronous", re.compile(r"cotune\.torch|cotune import torch")),
)
_MOST_BYTES = 1_000_000  # of a file of settings


class Fact(NamedTuple, Generic[Value]):
    """What was read, and where: `train.py:12`."""

    value: Value
    where: str


@dataclass(frozen=True, slots=True)
class Script:
    """What was read of a command's script."""

    name: str
    numbers: Mapping[Setting, Fact[float]]
    flags: Mapping[Setting, str]  # that set a number; nanoGPT's end in =
    framework: Fact[Framework] | None = None
    rule: Fact[str] | None = None  # of the learning rate
    scales: str | None = None  # where the script itself makes the rate follow the batch or the workers
    schedule: Fact[Schedule] | None = None
    metrics: tuple[Fact[str], ...] = ()  # that its framework reports, held-out data first
    reads: tuple[Fact[str], ...] = ()  # what it takes from variables
    meets: bool = True  # whether it, or a file that it imports, mentions what workers share the work by
    reports: bool = False  # whether it calls cotune.report
    prints: tuple[str, ...] = ()  # lines as it prints them, a number in the place of each value


def read(command: Sequence[str], folder: Path) -> Script | None:
    """Return what the command's Python script says, or None where there is none that can be read."""
    path = python_script(command, folder)
    if path is None:
        return None
    text = path.read_text(errors="replace")
    try:
        tree = python_text.parse(text, str(path))
    except (SyntaxError, ValueError, RecursionError):
        return Script(path.name, {}, {})
    nodes = list(ast.walk(tree))
    framework = _framework(nodes, text, path.name)
    flags, defaults, values = _flagged(nodes, path.name, _asked(command))
    stated = _stated(nodes, path.name)
    if "configurator.py" in text:  # as nanoGPT does: each setting of the module is a flag
        flags = {setting: f"--{name}=" for setting, name in _module_settings(tree)} | flags
    given = _given(command, folder)
    assigned = {name: value for name, value, _ in reversed(list(_bindings(nodes)))} | values
    assigned |= {name: ast.Constant(fact.value, kind=fact.where) for name, fact in given.items()}
    numbers = {**stated, **defaults, **dict(_numbers(given))}
    unit: Unit = "epochs" if "epochs" in numbers or "steps" not in numbers else "steps"
    everything = text + "".join(file.read_text(errors="replace") for file in imported_files(path))
    return Script(
        path.name,
        numbers,
        flags,
        framework,
        _rule(nodes, path.name, framework),
        next((f"{path.name}:{node.lineno}" for node in nodes if _scales(node)), None),  # type: ignore[attr-defined]
        _schedule(ScriptSchedule(nodes, assigned, unit).read(), path.name, framework),
        _logged(nodes, path.name, framework),
        _reads(nodes, everything, path.name),
        framework is not None or bool(_GROUPS.search(everything) or _SHARING.search(everything)),
        "cotune.report" in text or "from cotune import report" in text,
        printed_lines(tree),
    )


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_").lower()


def _setting(name: str) -> Setting | None:
    plain = _plain(name)
    if _OTHER.search(plain):
        return None
    return next((setting for setting, sign in _SETTINGS if sign.search(plain)), None)


def _asked(command: Sequence[str]) -> dict[str, Setting]:
    """Return the flags after which the command has a placeholder, and what each sets."""
    words = [part for word in command for part in word.split("=", 1)]
    placeholders = {f"{{{setting}}}": setting for setting, _ in _SETTINGS}
    return {flag: placeholders[after] for flag, after in pairwise(words) if after in placeholders}


def _flagged(
    nodes: Sequence[ast.AST], script: str, asked: Mapping[str, Setting]
) -> tuple[dict[Setting, str], dict[Setting, Fact[float]], dict[str, ast.expr]]:
    """Return the flags of argparse or click that set numbers, their defaults, and those of all flags."""
    flags: dict[Setting, str] = {}
    values: dict[str, ast.expr] = {}
    defaults: dict[Setting, Fact[float]] = {}
    for call in (node for node in nodes if isinstance(node, ast.Call) and called(node) in ("add_argument", "option")):
        names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        names = [name for name in names if name.startswith("-")]
        setting = next((found for name in names if (found := asked.get(name) or _setting(name))), None)
        default = next((word.value for word in call.keywords if word.arg == "default"), None)
        values |= {_plain(name): default for name in names if default is not None}
        if setting is None or (isinstance(default, ast.Constant) and isinstance(default.value, str | bool)):
            continue
        flags[setting] = next((name for name in names if name in asked), max(names, key=len))
        if value := value_of(default):
            defaults[setting] = Fact(value, f"{script}:{call.lineno}")
    return flags, defaults, values


def _stated(nodes: Sequence[ast.AST], script: str) -> dict[Setting, Fact[float]]:
    """Return the numbers that settings, fields, defaults and keywords state, each with one value alone."""
    found: dict[Setting, list[Fact[float]]] = {}
    for name, value, line in _bindings(nodes):
        setting, number = _setting(name), value_of(value)
        if setting is not None and number:
            found.setdefault(setting, []).append(Fact(number, f"{script}:{line}"))
    return {setting: facts[0] for setting, facts in found.items() if len({fact.value for fact in facts}) == 1}


def _bindings(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr, int]]:
    """Yield names and their values: variables, fields, parameters, entries and keywords."""
    for node in nodes:
        pairs: Iterable[tuple[object, ast.expr]] = ()
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pairs = [(name, value)]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pairs = [(name, value)]
            case ast.Dict(keys=keys, values=values):
                pairs = ((getattr(key, "value", None), value) for key, value in zip(keys, values, strict=True))
            case ast.FunctionDef(args=args):
                last = zip(reversed(args.args), reversed(args.defaults), strict=False)
                pairs = ((word.arg, value) for word, value in last)
            case ast.Call(keywords=keywords):
                name = called(node)
                if name.endswith(("Arguments", "Config", "Trainer")) or name == "SGD" or _SELF_SCALING.match(name):
                    pairs = ((word.arg, word.value) for word in keywords)
        yield from ((str(name), value, value.lineno) for name, value in pairs)


def _module_settings(tree: ast.Module) -> Iterator[tuple[Setting, str]]:
    """Yield the settings that the module itself assigns, and their names."""
    assigned = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    for target in assigned:
        if isinstance(target, ast.Name) and (setting := _setting(target.id)) is not None:
            yield setting, target.id


def _given(command: Sequence[str], folder: Path) -> dict[str, Fact[float | str]]:
    """Return what the command says, by `--lr 0.1`, `--lr=0.1` and `lr=0.1`, or YAML and JSON files that it names."""
    found: dict[str, Fact[float | str]] = {}
    for word in command:
        path = folder / word.rpartition("=")[2]
        if path.suffix in (".yaml", ".yml", ".json") and path.is_file() and path.stat().st_size <= _MOST_BYTES:
            try:
                raw = yaml_text.read(path.read_text(errors="replace"))
            except yaml_text.NotYaml:
                continue
            found |= {_plain(name): Fact(value, path.name) for name, value in _entries(raw)}
    for word, after in pairwise((*command, "")):
        name, sign, value = word.partition("=")
        text = value if sign else after
        if (sign or name.startswith("-")) and "{" not in text:
            number = re.fullmatch(r"\d*\.?\d+(?:[eE]-?\d+)?", text)
            found[_plain(name)] = Fact(float(text) if number else text, f"{name} of the command")
    return found


def _numbers(given: Mapping[str, Fact[float | str]]) -> Iterator[tuple[Setting, Fact[float]]]:
    for name, (value, where) in given.items():
        if isinstance(value, float) and (setting := _setting(name)) is not None:
            yield setting, Fact(value, where)


def _entries(raw: object, of: str = "") -> Iterator[tuple[str, float | str]]:
    """Yield the settings of a file; `name` and `type` say what the section is in which they stand."""
    for name, value in raw.items() if isinstance(raw, dict) else ():
        if isinstance(value, dict):
            yield from _entries(value, str(name))
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            key = of if of and name in ("name", "type") else str(name)
            yield key, value if isinstance(value, str) else float(value)


def _framework(nodes: Sequence[ast.AST], text: str, script: str) -> Fact[Framework] | None:
    """Return whose training loop a script runs: one that only takes a model from transformers has another."""
    for node in nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        for root in {name.partition(".")[0] for name in names} & _FRAMEWORKS.keys():
            if _FRAMEWORKS[root] != "transformers" or _TRAINER.search(text):
                return Fact(_FRAMEWORKS[root], f"{script}:{node.lineno}")  # type: ignore[attr-defined]
    return None


def _rule(nodes: Sequence[ast.AST], script: str, framework: Fact[Framework] | None) -> Fact[str] | None:
    """Return the rule for the only kind of optimiser that a script makes: Adam's kind sqrt, SGD linear."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    scaling = [call for call in calls if _SELF_SCALING.match(called(call))]
    plain = [call for call in calls if called(call) == "SGD"]
    if bool(scaling) != bool(plain):
        first = (scaling or plain)[0]
        return Fact("sqrt" if scaling else "linear", f"{called(first)} in {script}:{first.lineno}")
    if framework is not None and framework.value == "transformers" and not plain:
        return Fact("sqrt", "AdamW, which transformers takes by default")
    return None


def _scales(node: ast.AST) -> bool:
    """Return whether code makes a rate of a product with something that counts examples or workers."""
    if isinstance(node, ast.BinOp):
        return _is_product(node) and bool(_RATE.search(ast.unparse(node)) and _SIZE.search(ast.unparse(node)))
    if isinstance(node, ast.AugAssign):
        counts = _SIZE.search(ast.unparse(node.value))
        return isinstance(node.op, ast.Mult | ast.Div) and bool(_RATE.search(ast.unparse(node.target)) and counts)
    if isinstance(node, ast.Assign):
        return any(_RATE.search(ast.unparse(one)) for one in node.targets) and _counts(node.value)
    return isinstance(node, ast.keyword) and bool(_RATE.search(node.arg or "")) and _counts(node.value)


def _counts(value: ast.expr) -> bool:
    """Return whether a product in an expression has a factor that counts examples or workers."""
    return any(_is_product(node) and _SIZE.search(ast.unparse(node)) for node in ast.walk(value))


def _is_product(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div)


def _schedule(
    found: tuple[Schedule, ast.AST] | None, script: str, framework: Fact[Framework] | None
) -> Fact[Schedule] | None:
    """Return the schedule that was read, and where; else what transformers takes by default."""
    if found is not None:
        told, code = found
        return Fact(told, getattr(code, "kind", None) or f"{script}:{code.lineno}")  # type: ignore[attr-defined]
    default = framework is not None and framework.value == "transformers"
    return Fact(Schedule("linear"), "transformers' default") if default else None


def _logged(nodes: Sequence[ast.AST], script: str, framework: Fact[Framework] | None) -> tuple[Fact[str], ...]:
    """Return the metrics that a framework reports: those that the script logs by it, of held-out data before others."""
    if framework is None:
        return ()
    if framework.value == "transformers":
        return (Fact("eval_loss", "as transformers names it"),)
    found: dict[str, Fact[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Call) and called(node) in ("log", "log_dict") and node.args:
            said = node.args[0].keys if isinstance(node.args[0], ast.Dict) else [node.args[0]]
            for key in said:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found.setdefault(key.value, Fact(key.value, f"{script}:{node.lineno}"))
    return tuple(sorted(found.values(), key=lambda fact: not metric_names.is_held_out(fact.value)))


def _reads(nodes: Sequence[ast.AST], everything: str, script: str) -> tuple[Fact[str], ...]:
    """Return what a script takes from variables: `COTUNE_BATCH_SIZE` is batch_size, `WORLD_SIZE` workers."""
    found: dict[str, Fact[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            said = _VARIABLE.fullmatch(node.value)
            if said is not None and said[1] not in _NO_NUMBERS:
                found.setdefault(said[1].lower(), Fact(said[1].lower(), f"{script}:{node.lineno}"))
    if _SHARING.search(everything) and not _GROUPS.search(everything):
        found["workers"] = Fact("workers", script)
    for name, sign in _OWN_READERS:
        if sign.search(everything):
            found.setdefault(name, Fact(name, script))
    return tuple(found.values())
