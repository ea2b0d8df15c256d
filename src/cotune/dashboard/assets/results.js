/* Simulations with their distributions, Gantt charts and reasons; placements with their stages. */
import { ask, badge, card, code, count, draw, duration, empty, h, number, plot, table, tile, when } from "./dom.js";
import { kept } from "./overview.js";

const FIRST = 12; // jobs whose reasons are shown at once

export async function results(root, [which]) {
  const kind = which === "simulations" ? "simulate" : "place";
  const title = which === "simulations" ? "Simulations" : "Placements";
  const body = h("div");
  root.append(h("h1", {}, title), h("p.lead", {}, "What was kept of them."), body);
  const hint = kind === "simulate" ? "cotune simulate trace.csv --cluster 64 --policy fifo,srtf --keep"
    : "cotune place profile.json --throughput 20000 --keep";
  async function load() {
    const rows = (await ask("/api/overview")).results.filter((found) => found.kind === kind);
    body.replaceChildren(rows.length ? card("", kept(rows)) : empty(`No ${which} yet`, h("span", {}, "Keep one: ", code(hint))));
  }
  await load();
  return { title, beat(changed) { if (changed) load(); } };
}

export async function simulation(root, [id]) {
  const told = await ask(`/api/results/${id}`);
  const { document: found, figures } = told;
  const names = Object.keys(found.policies);
  const gpus = Object.entries(found.cluster).map(([name, count]) => `${count} ${name}`).join(" + ");
  root.append(h("h1", {}, told.name), h("p.lead", {}, `${count(found.jobs)} jobs on ${gpus}; kept `, when(told.created)));
  root.append(card("Policies compared", policies(found, names)));
  root.append(h("div.grid", { style: "margin-top:1rem" },
    [["completion", "From submission to end"], ["waiting", "Waiting"], ["use", "Use of the cluster"]].map(([name, title]) =>
      h("section.card.third", {}, h("h2", {}, title), plot(figures[name], title)))));
  const chart = h("div.plot", { role: "img", "aria-label": "Jobs over time" });
  const reasons = h("div");
  const show = (policy) => {
    const figure = figures.gantt[policy];
    chart.style.height = `${figure.layout.height}px`;
    draw(chart, figure);
    reasons.replaceChildren(waits(found.policies[policy]));
  };
  const select = h("select", { id: "policy", onchange: (event) => show(event.target.value) },
    names.map((name) => h("option", { value: name }, name)));
  root.append(h("section.card", { style: "margin-top:1rem" }, h("div.section-head", {}, h("h2", {}, "Jobs over time"),
    h("label.small.muted", { for: "policy" }, "Policy ", select)),
  h("figure", {}, chart, h("figcaption", {}, "The jobs that waited longest, by the time they were submitted; GPUs in brackets. Pale: waits, full: runs."))));
  root.append(h("section.card", { style: "margin-top:1rem" }, h("h2", {}, "Why jobs waited"),
    h("p.muted.small", {}, "What stood in the way of each job when it was submitted."), reasons));
  show(names[0]);
  return { title: told.name };
}

function policies(found, names) {
  const metric = (key, show = duration) => (name) => {
    const value = found.policies[name].metrics[key];
    return value === null ? "" : show(value);
  };
  const share = (value) => `${Math.round(100 * value)}%`;
  const best = names.reduce((one, other) =>
    (found.policies[other].metrics.jct_mean ?? Infinity) < (found.policies[one].metrics.jct_mean ?? Infinity) ? other : one, names[0]);
  const columns = [
    ["policy", (name) => [name, names.length > 1 && name === best ? [" ", badge("least mean", "good")] : []]],
    ["mean", metric("jct_mean"), { number: true }], ["median", metric("jct_p50"), { number: true }],
    ["p99", metric("jct_p99"), { number: true }], ["waiting", metric("waiting_mean"), { number: true }],
    ["makespan", metric("makespan"), { number: true }], ["slowdown", metric("slowdown_mean", (x) => number(x, 3)), { number: true }],
    ["use", metric("utilisation", share), { number: true }], ["GPU hours", metric("gpu_hours", (x) => number(x)), { number: true }],
    ["stops", metric("preemptions", count), { number: true }], ["left", metric("unfinished", count), { number: true }],
  ];
  return table("Policies", columns, names, names.length > 1 ? names.indexOf(best) : null);
}

function waits(found) {
  const rows = found.jobs.filter((job) => job.waited > 0).sort((one, other) => other.waited - one.waited).slice(0, 50);
  if (!rows.length) return h("p.muted", {}, "No job waited.");
  const listed = (some) => table("Why jobs waited", [
    ["job", (job) => job.name], ["GPUs", (job) => number(job.gpus), { number: true }],
    ["waited", (job) => duration(job.waited), { number: true }], ["because", (job) => job.reason, { text: true }],
  ], some);
  const more = rows.length > FIRST ? h("details", {}, h("summary", {}, `${rows.length - FIRST} more`), listed(rows.slice(FIRST))) : null;
  return h("div", {}, listed(rows.slice(0, FIRST)), more);
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
