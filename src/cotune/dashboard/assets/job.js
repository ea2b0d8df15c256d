/* One job: what if, the grounds of the answer, its plans and runs. */
import { ask, badge, card, code, count, draw, duration, empty, h, number, plot, table, tile, when } from "./dom.js";
import { plans, running } from "./overview.js";

const STEPS = 1000;

export async function job(root, [key], state) {
  let told = await ask(`/api/jobs/${key}`);
  const live = h("div");
  const body = h("div");
  root.append(h("h1", {}, told.name),
    h("p.lead", {}, `${count(told.samples)} samples of ${count(told.configs)} configs, `,
      `${duration(told.device_seconds)} of device time; last start `, when(told.last_started)), live, body);
  const here = () => state.live.filter((run) => run.key === key);
  let asked = null;
  const render = () => {
    body.replaceChildren();
    if (told.question) {
      asked = whatIf(key, told, asked?.values());
      body.append(asked.element, ...grounds(told.grounds));
    } else {
      body.append(empty("No forecast yet", told.why_not));
    }
    body.append(history(told, key));
  };
  render();
  running(live, here());
  return {
    title: told.name,
    async beat(changed) {
      running(live, here());
      if (!changed) return;
      told = await ask(`/api/jobs/${key}`);
      const held = body.contains(document.activeElement) || body.querySelector(":active"); // by keys, or by a pointer
      if (!held) render();
    },
  };
}

function slider({ name, label, low, high, value, logarithmic, show, off, why, change }) {
  const forth = (x) => logarithmic ? Math.log(x) : x;
  const back = (x) => logarithmic ? Math.exp(x) : x;
  const at = (x) => Math.round(STEPS * (forth(x) - forth(low)) / ((forth(high) - forth(low)) || 1));
  let exact = null; // what was asked, until the slider is moved: its steps are coarser
  const read = () => exact ?? back(forth(low) + (forth(high) - forth(low)) * Number(input.value) / STEPS);
  const id = `slide-${name}`;
  const output = h("output", { for: id });
  const input = h("input", { id, type: "range", min: "0", max: String(STEPS), step: "1" });
  const box = off ? h("input", { type: "checkbox", id: `${id}-off` }) : null;
  const current = () => box?.checked ? null : read();
  const tell = () => {
    output.textContent = current() === null ? off : show(read());
    input.setAttribute("aria-valuetext", output.textContent);
    input.disabled = Boolean(box?.checked);
  };
  const set = (x) => {
    if (box) box.checked = x === null || x === undefined;
    const middle = back((forth(low) + forth(high)) / 2);
    exact = x ?? null;
    input.value = String(Math.min(Math.max(at(x ?? middle), 0), STEPS));
    tell();
  };
  const moved = () => { tell(); change(); };
  input.addEventListener("input", () => { exact = null; moved(); });
  box?.addEventListener("change", moved);
  set(value);
  const element = h("div.control", {}, h("div.top", {}, h("label", { for: id }, label), output), input,
    h("div.ends", {}, h("span", {}, show(low)), h("span", {}, show(high))),
    box && h("label.off", { for: box.id }, box, why ?? off));
  return { element, value: current, set };
}

function whatIf(key, told, before) {
  const { goal, seconds, accuracy, prices, currency, configs, assumed } = told.question;
  const first = before ?? { target: goal.target, deadline: goal.deadline, confidence: goal.confidence,
    prefer: goal.prefer, prices };
  const change = () => request();
  const controls = { deadline: slider({ name: "deadline", label: "Deadline", low: seconds[0], high: seconds[1],
    value: first.deadline, logarithmic: true, show: duration, off: "no deadline", change }) };
  if (accuracy) {
    const [worst, best] = accuracy;
    controls.target = slider({ name: "target", label: `Target ${told.metric}`, low: worst, high: best,
      value: first.target, show: (x) => number(x), off: "no target", change });
  }
  const money = {};
  for (const [device, price] of Object.entries(prices)) {
    const most = Math.max(10, 4 * (price ?? 0));
    money[device] = slider({ name: `price-${device}`, label: `Price of ${device}`, low: 0.01, high: most,
      value: first.prices[device], logarithmic: true, off: "no price", why: "no price: count device-seconds",
      show: (x) => `${number(x, 3)} ${currency} per hour`, change });
  }
  controls.confidence = slider({ name: "confidence", label: "Confidence", low: 0.5, high: 0.99,
    value: first.confidence, show: (x) => `${Math.round(100 * x)}%`, change });
  const prefer = h("select", { id: "prefer", onchange: change },
    ["cheap", "fast", "accurate"].map((name) => h("option", { value: name, selected: name === first.prefer }, name)));
  const values = () => ({
    deadline: controls.deadline.value(), target: controls.target?.value() ?? null,
    confidence: controls.confidence.value(), prefer: prefer.value,
    prices: Object.fromEntries(Object.entries(money).map(([device, one]) => [device, one.value()])),
  });
  const reset = h("button", { type: "button", onclick: () => {
    controls.deadline.set(goal.deadline);
    controls.target?.set(goal.target);
    controls.confidence.set(goal.confidence);
    for (const [device, one] of Object.entries(money)) one.set(prices[device]);
    prefer.value = goal.prefer;
    change();
  } }, "As it was asked");

  const answer = h("section.card.answer", { id: "answer", "aria-live": "polite" });
  const chart = h("div.plot.tall", { role: "img", "aria-label": "Cost against time of all configs" });
  const listed = h("div");
  const brief = h("p.brief", { "aria-hidden": "true" }); // where the answer is below the sliders, as on a phone
  let busy = false;
  let again = false;
  let begun = 0;
  async function request() {
    if (busy) { again = true; return; }
    busy = true;
    begun = performance.now();
    try {
      show(await ask(`/api/jobs/${key}/what-if?${query(values())}`));
    } catch (error) {
      answer.replaceChildren(h("p.error", { role: "alert" }, error.message));
    }
    busy = false;
    if (again) { again = false; request(); }
  }
  function show(found) {
    answer.classList.toggle("refused", !found.plan);
    answer.replaceChildren(...decision(found, told));
    brief.textContent = found.plan
      ? `${found.plan.words}: ${duration(found.plan.forecast.seconds.mid)}, ${number(found.plan.forecast.cost.mid)} ${found.unit}`
      : `no plan: the ${found.refusal.constraint || "goal"} binds`;
    listed.replaceChildren(...(found.table ? [rivals(found)] : []));
    answer.dataset.milliseconds = begun ? (performance.now() - begun).toFixed(1) : "";
    answer.dataset.answers = String(Number(answer.dataset.answers ?? 0) + 1);
    draw(chart, found.figure);
  }
  show(told.answer);
  if (before) request(); // the job's own answer is for the goal as it was asked
  const panel = card("What if", h("p.muted.small", {}, `Move a slider: ${count(configs)} configs are judged anew at once.`),
    Object.values(controls).slice(0, accuracy ? 2 : 1).map((one) => one.element),
    Object.values(money).map((one) => one.element), controls.confidence.element,
    h("div.control", {}, h("div.top", {}, h("label", { for: "prefer" }, "Prefer"), prefer)),
    assumed ? h("p.muted.small", {}, "No plan in the store tells what may be chosen, so it is the range that was measured.") : null,
    accuracy ? null : h("p.muted.small", {}, "Too few evaluations to judge a target, or the recipe is fixed."),
    reset, brief);
  const element = h("div.if", {}, panel, h("div", {}, answer,
    card("Cost against time", h("figure", {}, chart, h("figcaption", {},
      "Each point is a config: the median time and cost to reach the goal. The star is the plan."))), listed));
  return { element, values };
}

function query(values) {
  const words = new URLSearchParams();
  for (const name of ["deadline", "target", "confidence", "prefer"]) {
    if (values[name] !== null) words.set(name, values[name]);
  }
  const given = Object.entries(values.prices).filter(([, price]) => price !== null);
  for (const [device, price] of given) words.set(`price.${device}`, price);
  if (!given.length && Object.keys(values.prices).length) words.set("unpriced", "true");
  return words;
}

function decision(found, told) {
  if (!found.plan) {
    return [h("h2.muted", {}, "No plan meets this"), h("p.choice.refused", {}, `The ${found.refusal.constraint || "goal"} binds`),
      h("p", {}, found.refusal.message)];
  }
  const { seconds, accuracy, cost } = found.plan.forecast;
  const range = (one, show) => `${show(one.low)} to ${show(one.high)}, ${one.source}`;
  const goal = found.goal;
  const tiles = [
    tile("time", duration(seconds.mid), range(seconds, duration), "", goal.deadline === null ? "" : `of ${duration(goal.deadline)} allowed`),
    accuracy ? tile(told.metric, number(accuracy.mid), range(accuracy, number), "", goal.target === null ? "" : `of ${number(goal.target)} asked`) : null,
    tile(`cost in ${found.unit}`, number(cost.mid), range(cost, number)),
    tile("probability that all is met", found.plan.probability > 0.99 ? "over 99%" : `${Math.round(100 * found.plan.probability)}%`,
      `${Math.round(100 * goal.confidence)}% asked`, "good"),
  ];
  const words = found.plan.words;
  return [h("h2.muted", {}, "The plan"), h("p.choice", {}, words[0].toUpperCase() + words.slice(1)),
    h("p.muted", {}, `At most ${found.plan.most}; ${found.plan.reason}.`),
    h("div.tiles", {}, tiles.filter(Boolean)), found.scaling && h("p.muted.small", {}, found.scaling)];
}

function rivals(found) {
  const columns = found.table.head.map((title, place) => [title, (row) => row[place]]);
  return card(found.plan ? "Plan and rivals" : "The nearest that can be had",
    table("Plan and rivals", columns, found.table.rows, found.table.marked));
}

function grounds(found) {
  const figures = [
    [found.epoch_times, `Seconds per ${found.each}`, "Lines are forecasts with their interval, points were measured."],
    [found.curves, "Learning curves", "Solid lines were measured; the dotted one is the forecast for the plan."],
    [found.scaling, "Where scaling stops paying", found.words],
    [found.cost, "What speed costs", "The quickest config of each number of workers."],
  ].filter(([figure]) => figure);
  const cards = figures.map(([figure, title, caption]) => h("section.card.half", {}, h("h2", {}, title), plot(figure, title, caption)));
  return [h("div.grid", { style: "margin-top:1rem" }, cards)];
}

function history(told, key) {
  const parts = [];
  if (told.grounds?.outcomes.length) {
    parts.push(card("Runs: forecast against measured", table("Runs", [
      ["started", (run) => when(run.started)],
      ["config", (run) => run.config],
      ["forecast", (run) => run.forecast ? `${duration(run.forecast.mid)} (${duration(run.forecast.low)} to ${duration(run.forecast.high)})` : "no plan"],
      ["measured", (run) => duration(run.seconds), { number: true }],
      [told.metric, (run) => number(run.accuracy), { number: true }],
      ["outcome", (run) => run.missed ? badge(run.missed, "bad") : badge(run.words, "good")],
    ], told.grounds.outcomes)));
  }
  if (told.plans.length) parts.push(card("Plans", plans(told.plans, false)));
  const facts = [["command", told.command.length ? code(told.command.join(" ")) : "none"], ["folder", told.folder],
    ["measured on", told.where || "not said"], ["samples", h("a", { href: `#/samples?job=${key}` }, "all of them")]];
  if (told.question) facts.push(["prices", told.question.priced.join("; ") || "none are given: costs are device-seconds"]);
  if (told.grounds?.notes.length) facts.push(["known from", told.grounds.notes.join("; ")]);
  parts.push(card("The job", h("dl.facts", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))));
  return h("div", { style: "margin-top:1rem" }, parts);
}
