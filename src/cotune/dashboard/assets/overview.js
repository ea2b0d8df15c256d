/* Jobs, what is going on, the latest plans, and what other verbs left to look at. */
import { ask, badge, card, code, count, duration, empty, h, number, svg, table, tile, when } from "./dom.js";

export async function overview(root, _, state) {
  let told = await ask("/api/overview");
  const live = h("div", { id: "live" });
  const rest = h("div");
  root.append(h("h1", {}, "Overview"), h("p.lead", {}, told.store), live, rest);
  const render = () => {
    rest.replaceChildren(...body(told));
    running(live, told.live);
  };
  render();
  return {
    title: "Overview",
    async beat(changed) {
      if (changed) {
        told = await ask("/api/overview");
        render();
      }
      running(live, state.live);
    },
  };
}

function body(told) {
  if (!told.jobs.length && !told.results.length) {
    return [empty("Nothing in this store yet",
      h("span", {}, "Measure a job: ", code("cotune profile -- python train.py --batch-size {batch_size}")),
      "This page follows by itself.")];
  }
  const sum = (name) => told.jobs.reduce((total, job) => total + job[name], 0);
  const tiles = h("div.tiles", {}, tile("jobs", count(told.jobs.length)), tile("samples", count(sum("samples"))),
    tile("runs", count(sum("runs"))), tile("failed starts", count(sum("failed")), "", sum("failed") ? "bad" : ""),
    tile("measured and run", duration(sum("device_seconds")), "device time"));
  const parts = [h("section.card", {}, h("h2", {}, "Store"), tiles)];
  if (told.jobs.length) parts.push(card("Jobs", jobs(told.jobs)));
  if (told.plans.length) parts.push(card("Latest plans", plans(told.plans)));
  if (told.results.length) parts.push(card("Placements", kept(told.results)));
  return parts;
}

const ended = { met: () => badge("met", "good"), missed: () => badge("missed", "bad"), failed: () => badge("failed", "bad"),
  done: () => badge("done") }; // by how the last run of a job ended

function jobs(rows) {
  return table("Jobs", [
    ["job", (job) => h("a", { href: `#/job/${job.key}` }, job.name)],
    ["state", (job) => job.live ? badge(`${job.live} going on`, "live") : ended[job.outcome]?.() ?? badge(job.planned ? "planned" : "measured")],
    ["samples", (job) => count(job.samples), { number: true }],
    ["configs", (job) => count(job.configs), { number: true }],
    ["runs", (job) => count(job.runs), { number: true }],
    ["failed", (job) => count(job.failed), { number: true }],
    ["device time", (job) => duration(job.device_seconds), { number: true }],
    ["last start", (job) => when(job.last_started)],
  ], rows);
}

export function plans(rows, named = true) {
  const columns = [
    ["made", (plan) => when(plan.created)],
    ["goal", (plan) => plan.goal],
    ["plan", (plan) => plan.words],
    ["time", (plan) => duration(plan.forecast.seconds.mid), { number: true }],
    ["cost", (plan) => `${number(plan.forecast.cost.mid)} ${plan.forecast.cost.unit}`, { number: true }],
    ["P(met)", (plan) => plan.probability.toFixed(2), { number: true }],
  ];
  if (named) columns.splice(1, 0, ["job", (plan) => h("a", { href: `#/job/${plan.key}` }, plan.job)]);
  return table("Plans", columns, rows);
}

export function kept(rows) {
  return table("Placements kept", [
    ["name", (found) => h("a", { href: `#/placements/${found.id}` }, found.name)],
    ["kept", (found) => when(found.created)],
  ], rows);
}

export function running(root, runs) {
  if (!runs.length) {
    root.replaceChildren();
    return;
  }
  root.replaceChildren(h("section", { "aria-label": "Going on now" },
    h("h2", { style: "margin:.2rem 0 .6rem" }, "Going on now"), h("div.live-grid", {}, runs.map(run))));
}

function run(one) {
  const done = one.cap ? Math.min(one.epochs / one.cap, 1) : null;
  const eta = one.left === null ? (one.epoch_seconds === null ? "starting" : "no plan, so no ETA")
    : one.left === 0 ? "target met" : `about ${duration(one.left)} left`;
  const within = one.interval ? `${duration(one.interval[0])} to ${duration(one.interval[1])}` : "";
  return h("article.card.live", { "aria-label": `${one.purpose} of ${one.job}` },
    h("div.row", {}, h("h3", {}, h("a", { href: `#/job/${one.key}` }, one.job)), badge(one.purpose, "live")),
    h("div.muted.small", {}, one.words),
    h("div.eta", {}, eta), within && h("div.muted.small", {}, within),
    h("progress", done === null ? { "aria-label": "progress" } : { value: done, max: 1, "aria-label": "progress" }),
    h("div.row", {},
      h("span", {}, one.at, one.most ? ` of at most ${one.most}` : ""),
      h("span", {}, one.accuracy === null ? "" : `${one.metric} ${number(one.accuracy)}`,
        one.target === null ? "" : ` of ${number(one.target)}`)),
    h("div.row.muted", {}, h("span", {}, `${duration(one.seconds)} ${one.deadline === null ? "so far" : `of ${duration(one.deadline)}`}`),
      h("span", {}, one.pace ?? "")),
    spark(one));
}

function spark(one) {
  const points = one.curve.filter(([, y]) => y !== null);
  if (points.length < 2) return null;
  const ys = points.map(([, y]) => y).concat(one.target === null ? [] : [one.target]);
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const last = Math.max(points.at(-1)[0], 1e-9);
  const y = (value) => 60 - 56 * (value - low) / (high - low || 1);
  const line = points.map(([x, value]) => `${(100 * x / last).toFixed(2)},${y(value).toFixed(2)}`).join(" ");
  const picture = svg("svg", { class: "spark", viewBox: "0 0 100 64", preserveAspectRatio: "none", role: "img",
    "aria-label": `${one.metric} over ${number(last, 3)} ${one.unit}: ${number(points[0][1])} to ${number(points.at(-1)[1])}` },
    svg("polyline", { points: line }));
  if (one.target !== null) {
    picture.append(svg("line", { x1: 0, x2: 100, y1: y(one.target), y2: y(one.target) }));
  }
  return picture;
}
