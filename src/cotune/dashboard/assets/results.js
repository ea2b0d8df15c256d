/* Placements that were kept, with their stages. */
import { ask, badge, card, code, duration, empty, h, number, plot, table, tile, when } from "./dom.js";
import { kept } from "./overview.js";

export async function placements(root) {
  const body = h("div");
  root.append(h("h1", {}, "Placements"), h("p.lead", {}, "What was kept of them."), body);
  const hint = "cotune place profile.json --throughput 20000 --keep";
  async function load() {
    const rows = (await ask("/api/overview")).results;
    body.replaceChildren(rows.length ? card("", kept(rows)) : empty("No placements yet", h("span", {}, "Keep one: ", code(hint))));
  }
  await load();
  return { title: "Placements", beat(changed) { if (changed) load(); } };
}

export async function placement(root, [id]) {
  const told = await ask(`/api/results/${id}`);
  const { document: found, figures } = told;
  const { plan, asked } = found;
  root.append(h("h1", {}, told.name), h("p.lead", {}, `at least ${number(asked.throughput)} examples per second, ${asked.prefer}; kept `, when(told.created)));
  const proof = plan.optimal ? badge("proven optimal", "good") : badge(`not proven: bound ${number(plan.bound)}`, "bad");
  root.append(h("section.card.answer", {}, h("h2.muted", {}, "The placement"),
    h("p.choice", {}, plan.stages.map((stage) => `${stage.units} ${stage.type}`).join(" then ")), h("p", {}, proof),
    h("div.tiles", {}, tile("examples per second", number(plan.throughput), `${number(asked.throughput)} asked`, "good"),
      tile("per million examples", `${number(plan.cost_per_million)} ${plan.unit}`), tile("price", `${number(plan.price_per_hour)} ${plan.unit}`, "per hour"),
      tile("units", number(plan.units)), tile("batch", number(plan.batch)))));
  const types = [...new Set(plan.stages.map((stage) => stage.type))];
  const span = (stage) => stage.last - stage.first + 1;
  const layer = (place) => found.layers[place] || `layer ${place}`;
  const blocks = plan.stages.map((stage, place) => h(place === plan.bottleneck ? "div.stage.slowest" : "div.stage",
    { style: `flex: ${span(stage)} 1 0; background: var(--s${types.indexOf(stage.type) % 6 + 1})`, role: "listitem" },
    h("strong", {}, `${stage.units} × ${stage.type}`), span(stage) === 1 ? layer(stage.first) : `${layer(stage.first)} to ${layer(stage.last)}`,
    h("br"), `${number(stage.seconds * 1000, 3)} ms`));
  root.append(h("section.card", { style: "margin-top:1rem" }, h("h2", {}, "Stages"), h("div.pipeline", { role: "list", tabindex: "0", "aria-label": "Stages in order" }, blocks),
    h("p.muted.small", {}, "As wide as the layers they hold; the outlined one is the slowest and sets the pace."), plot(figures.stages, "Seconds of each stage"),
    table("Stages", [["layers", (stage) => span(stage) === 1 ? layer(stage.first) : `${layer(stage.first)} to ${layer(stage.last)}`], ["type", (stage) => stage.type],
      ["units", (stage) => number(stage.units), { number: true }], ["per batch", (stage) => duration(stage.seconds), { number: true }],
      ["limited by", (stage) => stage.limited_by ?? ""]], plan.stages, plan.bottleneck)));
  const searches = Object.entries(found.searches);
  if (searches.length > 1) {
    root.append(h("section.card", { style: "margin-top:1rem" }, h("h2", {}, "Methods compared"), table("Methods", [["method", ([name]) => name],
      [`${plan.unit} per million`, ([, one]) => one.cost_per_million === null ? "none found" : number(one.cost_per_million), { number: true }],
      ["over the best", ([, one]) => one.cost_per_million === null ? "" : number(one.cost_per_million / plan.cost_per_million, 4), { number: true }],
      ["took", ([, one]) => duration(one.seconds), { number: true }]], searches)));
  }
  const next = [["cheaper", found.next_cheaper], ["faster", found.next_faster]].filter(([, one]) => one);
  if (next.length) {
    root.append(h("section.card", { style: "margin-top:1rem" }, h("h2", {}, "Next to it"), table("Next plans", [["", ([name]) => name],
      ["units", ([, one]) => one.stages.map((stage) => `${stage.units} ${stage.type}`).join(" + ")],
      ["examples per second", ([, one]) => number(one.throughput), { number: true }],
      [`${plan.unit} per million`, ([, one]) => number(one.cost_per_million), { number: true }]], next)));
  }
  return { title: told.name };
}
