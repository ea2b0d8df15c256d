"""Write the golden files: `python tests/golden/write.py [SCENARIO ...]`, all scenarios without a name.

Each scenario is run twice and must come out the same, else nothing is written of it. A document that
has lost a key or changed a type is refused: that would break whoever reads it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.commands import EXPECTED, Outcome, Scenario, expected, outcomes
from golden.scenarios import SCENARIOS
from golden.shapes import Shapes
from golden.values import differences


def main(names: list[str]) -> int:
    """Write what the present program prints; return 1 where something stands against it."""
    chosen = [scenario for scenario in SCENARIOS if not names or scenario.name in names]
    unknown = set(names) - {scenario.name for scenario in chosen}
    objections = [f"no scenario named {name}" for name in sorted(unknown)]
    for scenario in chosen:
        now = outcomes(scenario)
        outcomes.cache_clear()
        against = list(_objections(scenario, now, outcomes(scenario)))
        objections += against
        if not against:
            (EXPECTED / f"{scenario.name}.json").write_text(_text(now), encoding="utf-8")
    print("\n".join(objections) or f"{len(chosen)} scenarios written")
    return bool(objections)


def _objections(scenario: Scenario, now: tuple[Outcome, ...], again: tuple[Outcome, ...]) -> list[str]:
    differ = [
        f"{scenario}: two runs differ: {command.words}: {place}: {told}"
        for command, one, two in zip(scenario.commands, now, again, strict=True)
        if not command.shape_only
        for place, told in differences(one["document"], two["document"], "")
    ]
    if not (EXPECTED / f"{scenario.name}.json").exists():
        return differ
    shapes = Shapes.of_all()
    lost = [
        f"{scenario}: {new['command']}: {problem}"
        for old, new in zip(expected(scenario), now, strict=False)
        if old["command"] == new["command"]
        for problem in shapes.problems(old["document"], new["document"])
    ]
    return differ + lost


def _text(outcomes: tuple[Outcome, ...]) -> str:
    """Return JSON with a line for each part of a document, so that a change is seen where it is."""
    return "[\n" + ",\n".join(_entry(outcome) for outcome in outcomes) + "\n]\n"


def _entry(outcome: Outcome) -> str:
    document = ",\n".join(f"  {json.dumps(key)}: {_compact(part)}" for key, part in outcome["document"].items())
    return f' {{"command": {json.dumps(outcome["command"])}, "code": {outcome["code"]}, "document": {{\n{document}}}}}'


def _compact(part: object) -> str:
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
