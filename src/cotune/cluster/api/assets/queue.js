/* The queue of a service: who waits and why, who holds what and over time, and what the token may do about it. */
import { badge, card, code, duration, empty, h, say, svg, table, tile, when } from "./dom.js";

const main = document.getElementById("main");
const EVERY = 2000; // milliseconds between two looks
const OPEN = ["queued", "profiling", "waiting", "running", "stopping"];
const ORDER = ["read", "submit", "admin"];
const state = { token: null, ended: false, why: null, timer: null, typing: false };

async function request(path, body = undefined, method = body === undefined ? "GET" : "POST") {
  const headers = { accept: "application/json", authorization: `Bearer ${state.token}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  const reply = await fetch(`/api/v1/${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const told = await reply.json();
  if (reply.ok) return told;
  throw Object.assign(new Error(told.error || `the service answered ${reply.status}`), { status: reply.status });
}

const may = (you, scope) => ORDER.indexOf(you.scope) >= ORDER.indexOf(scope);

function link(text, kind) {
  const shown = document.getElementById("link");
  shown.textContent = text;
  shown.className = `badge ${kind}`;
}

function ask(words = "") {
  state.token = null;
  forget();
  link("no token", "");
  document.getElementById("leave").hidden = true;
  document.getElementById("who").textContent = "";
  const field = h("input", { type: "password", name: "token", id: "token", required: true, autocomplete: "current-password" });
  main.replaceChildren(h("h1", {}, "Queue"), card("",
    h("form.asking", { onsubmit: (event) => { event.preventDefault(); enter(field.value.trim()); } },
      h("label", {}, "Token", field), words && h("p.error", { role: "alert" }, words),
      h("div", {}, h("button", { type: "submit" }, "Open the queue"))),
    h("p.muted.small", {}, "An administrator makes one: ", code("cotune token NAME --tokens FILE --scope submit --team TEAM"))));
  main.dataset.shown = "token";
  field.focus();
}

function enter(token) {
  state.token = token;
  try { sessionStorage.cotune = token; } catch { /* no storage: it is typed again next time */ }
  refresh();
}

function forget() {
  clearTimeout(state.timer);
  try { delete sessionStorage.cotune; } catch { /* there was none */ }
}

async function refresh() {
  clearTimeout(state.timer);
  const token = state.token;
  if (token === null) return;
  try {
    const states = state.ended ? "" : OPEN.map((name) => `&state=${name}`).join("");
    const [service, jobs, use] = await Promise.all([
      request("service"), request(`jobs?last=500${states}`), request("occupancy")]);
    if (state.token !== token) return; // forgotten meanwhile: what it was allowed to see is not shown
    if (!state.typing) render(service, jobs.jobs, use);
    link("live", "live");
  } catch (error) {
    if (state.token !== token) return;
    if (error.status === 401) return ask("That token is not known here.");
    link(error.message, "bad");
  }
  state.timer = setTimeout(refresh, document.hidden ? 5 * EVERY : EVERY);
}

async function change(words, path, body, method) {
  try {
    await request(path, body, method);
    say(words);
  } catch (error) {
    say(error.message);
    link(error.message, "bad");
    return;
  }
  state.typing = false;
  refresh();
}

function render(service, jobs, use) {
  const you = service.you, names = Object.fromEntries(jobs.map((job) => [job.id, job.name]));
  document.getElementById("who").textContent = `${you.name} · ${you.scope}${you.team ? ` · team ${you.team}` : ""}`;
  document.getElementById("leave").hidden = false;
  const focus = document.activeElement?.id, open = document.getElementById("new")?.open;
  const keep = document.getElementById("new");
  main.replaceChildren(h("h1", {}, "Queue"), lead(service), list(jobs, you), why(),
    occupancy(service.cluster, names, use), summary(service), may(you, "submit") ? keep ?? handing() : "");
  if (open) document.getElementById("new").open = true;
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  main.dataset.shown = "queue";
}

function lead(service) {
  const one = service.service;
  const words = one?.alive ? `served by ${one.host} with ${one.policy}, version ${one.version}` : "no service leads now";
  return h("p.lead", {}, words);
}

function summary(service) {
  const shown = ["queued", "profiling", "waiting", "running", "met", "missed", "done", "failed", "declined", "cancelled"];
  return h("section.card", {}, h("h2", {}, "Jobs of all teams"), h("div.tiles", {},
    shown.filter((name) => service.counts[name] || OPEN.includes(name)).map((name) => tile(name, String(service.counts[name] ?? 0)))));
}

function occupancy(cluster, names, use) {
  if (!cluster.length) return "";
  return card("Cluster", ...cluster.map((kind) => h("div", {},
    h("h3", {}, `${kind.device}: ${kind.held} of ${kind.units} held`, kind.lost ? `, ${kind.lost} lost` : "",
      ...kind.measuring.map((one) => `, ${one.units} to measure ${names[one.job] ?? "another job"}`)),
    h("div.nodes", {}, kind.nodes.length ? kind.nodes.map((node) => drawn(node, names)) : counted(kind)))),
    ...use.series.map((one) => over(one, use, cluster)));
}

function drawn(node, names) {
  const who = node.jobs.map((one) => `${names[one.job] ?? "another job"} ${one.units}`).join(", ");
  const held = node.jobs.reduce((sum, one) => sum + one.units, 0);
  return h(node.lost ? "div.node.lost" : "div.node", { title: who || "free" }, node.lost ? `node ${node.node}, lost` : `node ${node.node}`,
    boxes(node.units, held, 0, `${held} of ${node.units} held${who ? `: ${who}` : ""}`), who && h("div.muted", {}, who));
}

function counted(kind) {
  const measuring = kind.measuring.reduce((sum, one) => sum + one.units, 0);
  return kind.units > 128 ? "" : boxes(kind.units, kind.held - measuring, measuring, `${kind.held} of ${kind.units} held`);
}

function boxes(units, held, measuring, words) {
  return h("div.units", { role: "img", "aria-label": words }, Array.from({ length: units }, (_, place) =>
    h(place < held ? "span.unit.held" : place < held + measuring ? "span.unit.measuring" : "span.unit")));
}

function over(one, use, cluster) {
  const units = cluster.filter((kind) => one.device === null || kind.device === one.device).reduce((sum, kind) => sum + kind.units, 0);
  const most = Math.max(units, ...one.held, 1), last = Math.max(one.held.length - 1, 1);
  const y = (value) => 100 - 96 * value / most;
  const points = one.held.map((value, place) => `${(100 * place / last).toFixed(2)},${y(value).toFixed(2)}`).join(" ");
  const name = one.device ?? "all";
  return h("figure", {}, svg("svg", { class: "use", viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img",
    "aria-label": `${name}: units held over the last ${duration(use.seconds)}, now ${one.held.at(-1).toFixed(1)} of ${units}` },
    svg("line", { x1: 0, x2: 100, y1: y(units), y2: y(units) }), svg("polyline", { points })),
    h("div.ends", {}, h("span", {}, `${duration(use.seconds)} ago`), h("span", {}, "now")),
    h("figcaption", {}, `Units of ${name} in use, measuring included; the dashed line is the ${units} there are.`));
}

const GOOD = { met: "good", done: "good", running: "live", profiling: "live", failed: "bad", missed: "bad", declined: "bad" };

function list(jobs, you) {
  const more = h("label.small", {}, h("input", { type: "checkbox", id: "ended", checked: state.ended,
    onchange: (event) => { state.ended = event.target.checked; refresh(); } }), " also those that have ended");
  if (!jobs.length) return h("div", {}, empty("Nothing here", "No job of yours waits or runs."), more);
  const rows = table("Jobs", [
    ["job", (job) => h("span", {}, job.name, h("div.muted.small", {}, job.id))],
    ["state", (job) => h("span", {}, badge(job.state, GOOD[job.state] ?? ""), job.held ? badge("held") : "")],
    ["team", (job) => job.team],
    ["priority", (job) => priority(job, you), { number: true }],
    ["workers", (job) => job.workers || "", { number: true }],
    ["deadline", (job) => job.deadline === null ? "" : h("span", { title: job.deadline_at }, duration(job.deadline)), { number: true }],
    ["ends in", (job) => job.eta.mid === null || !OPEN.includes(job.state) ? "" : h("span", {}, duration(job.eta.mid),
      h("div.muted.small", {}, `${duration(job.eta.low)} to ${duration(job.eta.high)}`)), { number: true }],
    ["submitted", (job) => when(job.submitted)],
    ["why", (job) => job.reason.split("\n")[0].slice(0, 160), { text: true }],
    ["", (job) => actions(job, you)],
  ], jobs.slice().reverse());
  return card("Queue", rows, more);
}

function priority(job, you) {
  if (!may(you, "admin") || !OPEN.includes(job.state)) return String(job.priority);
  const field = h("input", { type: "number", step: "1", id: `priority-${job.id}`, value: String(job.priority), "aria-label": `priority of ${job.name}`,
    onfocus: () => { state.typing = true; }, onblur: () => { state.typing = false; },
    onchange: (event) => change(`priority of ${job.name} is ${event.target.value}`, `jobs/${job.id}`, { priority: Number(event.target.value) }, "PATCH") });
  return field;
}

function actions(job, you) {
  const button = (words, act) => h("button", { type: "button", id: `${words}-${job.id}`, "aria-label": `${words} ${job.name}`, onclick: act }, words);
  const found = [button("why", () => explain(job.id))];
  if (may(you, "submit") && OPEN.includes(job.state)) {
    const hold = job.held ? "release" : "hold";
    found.push(button(hold, () => change(`${hold} ${job.name}`, `jobs/${job.id}/${hold}`, {})));
    found.push(button("cancel", () => confirm(`Cancel ${job.name}?`) && change(`${job.name} is cancelled`, `jobs/${job.id}/cancel`, {})));
  }
  return h("span.actions", {}, found);
}

async function explain(id) {
  try {
    state.why = await request(`jobs/${id}/why`);
  } catch (error) {
    say(error.message);
    return;
  }
  await refresh();
  document.getElementById("why")?.scrollIntoView({ block: "nearest" });
}

function why() {
  const told = state.why;
  if (!told) return "";
  return h("section.card", { id: "why", "aria-live": "polite" }, h("div.section-head", {}, h("h2", {}, `Why: ${told.job.name}`),
    h("button.quiet", { type: "button", onclick: () => { state.why = null; refresh(); } }, "Close")),
  h("p", {}, told.words), told.ahead.length ? table("Before it", [
    ["before it", (one) => one.name], ["state", (one) => badge(one.state)], ["workers", (one) => one.workers || "", { number: true }],
  ], told.ahead) : "",
  table("Events", [["when", (one) => when(one.at)], ["state", (one) => badge(one.state)], ["words", (one) => one.words, { text: true }]],
    told.events.slice().reverse()));
}

function handing() {
  const field = (name, words, more = {}) => h("label", {}, words, h("input", { name, id: `new-${name}`, ...more }));
  const said = h("p", { id: "handed", role: "status" });
  const form = h("form.asking", {},
    field("path", "Path of the job file, or its folder, on the service's machine", { required: true }),
    h("div.pair", {}, field("target", "Target", { placeholder: "accuracy=0.97" }), field("deadline", "Deadline", { placeholder: "2h" }),
      field("priority", "Priority", { type: "number", step: "1", placeholder: "0" })),
    h("div", {}, h("button", { type: "submit", name: "submit" }, "Submit"), " ",
      h("button", { type: "button", onclick: () => send(form, said, true) }, "What if?")), said);
  form.addEventListener("submit", (event) => { event.preventDefault(); send(form, said, false); });
  return h("details.card", { id: "new" }, h("summary", {}, "Submit a job"), form);
}

async function send(form, said, dry) {
  const given = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
  if ("priority" in given) given.priority = Number(given.priority);
  try {
    const told = await request(dry ? "dry-run" : "jobs", given);
    said.textContent = dry ? foreseen(told) : `${told.name} was submitted as ${told.job}`;
    said.className = "";
  } catch (error) {
    said.textContent = error.message;
    said.className = "error";
    return;
  }
  if (!dry) refresh();
}

function foreseen(told) {
  if (!told.admitted) return `It would be declined: ${told.reason}`;
  const span = (one) => `${duration(one.mid)} (${duration(one.low)} to ${duration(one.high ?? one.mid)})`;
  const moved = told.moved.map((one) => `${one.name} would end ${duration(one.later)} later`);
  return [`It would start in ${span(told.start)} and end in ${span(told.end)}.`, ...moved].join(" ");
}

document.getElementById("leave").addEventListener("click", () => ask());
let kept = null;
try { kept = sessionStorage.cotune ?? null; } catch { /* no storage */ }
if (kept) enter(kept);
else ask();
