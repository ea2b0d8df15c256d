"""Do odds of stalled runs reach to more nodes, and to another model, than they were fitted to?

    python benchmarks/layout_stalls.py $COTUNE_DATA/playbook_layouts

For each model and number of nodes of a table: the share of runs that stalled there, and the mean probability told by
odds that were fitted to fewer nodes, of the same model and of each other one. Whether a run stalled is judged by the
law fitted to its own model: is it nearer to a healthy run or to a stalled one?
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotune.modelling.layouts.layout import Layouts
from cotune.modelling.layouts.predictor import LayoutLearner
from cotune.modelling.layouts.seconds import count_terms, log_seconds
from cotune.modelling.layouts.stalls import Stalls
from cotune.modelling.layouts.tables import LayoutGroup, find_table, read_table
from cotune.types import Floats, Ints, Mask


@dataclass(frozen=True)
class JudgedRuns:
    """The runs of a model: what the law says of each, what was measured, and which stalled."""

    name: str
    layouts: Layouts
    nodes: Ints
    per_node: int
    law: Floats
    seconds: Floats
    stalled: Mask

    @classmethod
    def of(cls, group: LayoutGroup) -> JudgedRuns:
        ran, per_node = group.rows.take(group.rows.ran), group.rows.setting.machine.per_node
        theta, _ = LayoutLearner([group.rows]).shared()
        law = np.exp(log_seconds(theta, count_terms(ran.layouts, ran.setting)))
        _, chance = Stalls.assumed().fit(ran.layouts, per_node, law, ran.seconds)
        nodes = group.nodes[group.rows.ran]
        return cls(group.name, ran.layouts, nodes, per_node, law, ran.seconds, chance > 0.5)

    def odds(self, below: int) -> Stalls:
        """Return the odds as fitted to runs on fewer nodes."""
        few = self.nodes < below
        return Stalls.assumed().fit(self.layouts.take(few), self.per_node, self.law[few], self.seconds[few])[0]


def main(folder: Path) -> None:
    models = [JudgedRuns.of(group) for group in read_table(find_table(folder))]
    told_by = "".join(f"{f'told by {one.name}':>14}" for one in models)
    print(f"{'model':>6}{'nodes':>6}  {'kind':<12}{'runs':>5}{'stalled':>9}{told_by}   (odds fitted to fewer nodes)")
    for one in models:
        for count in (nodes for nodes in np.unique(one.nodes) if nodes >= 8):
            for kind, here in (("pipeline", one.layouts.pp > 1), ("no pipeline", one.layouts.pp == 1)):
                rows = here & (one.nodes == count)
                told = [other.odds(count).probability(one.layouts, one.per_node)[rows] for other in models]
                shares = "".join(f"{chances.mean():14.0%}" for chances in told)
                print(f"{one.name:>6}{count:6d}  {kind:<12}{rows.sum():5d}{one.stalled[rows].mean():9.0%}{shares}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
