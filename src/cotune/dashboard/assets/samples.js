/* Everything that was measured, a page at a time, and one start in full. */
import { ask, badge, card, code, count, duration, empty, h, number, plot, table, tile, when } from "./dom.js";

const PAGE = 100;

export async function samples(root) {
  const overview = await ask("/api/overview");
  const wanted = new URLSearchParams(location.hash.split("?")[1] ?? "");
  const filter = { job: wanted.get("job") ?? "", purpose: "", state: "" };
  let offset = 0;
  const body = h("div");
  const choose = (name, label, options) => h("label", {}, label, h("select", {
    onchange: (event) => { filter[name] = event.target.value; offset = 0; load(); },
  }, options.map(([value, text]) => h("option", { value, selected: value === filter[name] }, text))));
  root.append(h("h1", {}, "Samples"), h("p.lead", {}, "Every start of every config, newest first."),
    h("div.filters", {},
      choose("job", "Job", [["", "all jobs"], ...overview.jobs.map((job) => [job.key, job.name])]),
      choose("purpose", "What", [["", "probes and runs"], ["probe", "probes"], ["run", "runs"]]),
      choose("state", "Outcome", [["", "any"], ["ok", "ok"], ["failed", "failed"], ["interrupted", "interrupted"], ["growing", "going on"]])),
    body);
  async function load() {
    const words = new URLSearchParams({ limit: PAGE, offset });
    for (const [name, value] of Object.entries(filter)) if (value) words.set(name, value);
    const told = await ask(`/api/samples?${words}`);
    body.replaceChildren(told.total ? listed(told) : empty("No samples here", "Nothing fits, or nothing was measured yet."));
  }
  function listed(told) {
    const move = (by) => { offset += by; load(); };
    const last = Math.min(told.offset + PAGE, told.total);
    return card("", table("Samples", [
      ["id", (one) => h("a", { href: `#/samples/${one.id}` }, one.id)],
      ["job", (one) => h("a", { href: `#/job/${one.key}` }, one.job)],
      ["what", (one) => one.purpose],
      ["outcome", outcome],
      ["config", (one) => one.words],
      ["trained", (one) => one.done, { number: true }],
      ["pace", (one) => one.pace ?? "", { number: true }],
      ["metric", (one) => number(one.accuracy), { number: true }],
      ["device time", (one) => duration(one.device_seconds), { number: true }],
      ["started", (one) => when(one.started)],
    ], told.rows),
    h("div.pager", { role: "group", "aria-label": "Pages" },
      h("button", { type: "button", disabled: told.offset === 0, onclick: () => move(-PAGE) }, "Newer"),
      h("span", {}, `${count(told.offset + 1)} to ${count(last)} of ${count(told.total)}`),
      h("button", { type: "button", disabled: last >= told.total, onclick: () => move(PAGE) }, "Older")));
  }
  await load();
  return { title: "Samples", beat(changed) { if (changed && offset === 0) load(); } };
}

function outcome(one) {
  if (one.failure) return badge(one.failure.length > 60 ? `${one.failure.slice(0, 57)}...` : one.failure, "bad");
  return one.ended ? badge(one.warning ?? "ok", one.warning ? "" : "good") : badge("going on", "live");
}

export async function sample(root, [id]) {
  const told = await ask(`/api/samples/${encodeURIComponent(id)}`);
  const points = told.curve.filter((point) => point.accuracy !== null);
  const terms = Object.entries(told.terms);
  root.append(h("h1", {}, `Sample ${told.id}`), h("p.lead", {}, `${told.purpose} by the ${told.engine} engine, started `, when(told.started)),
    card("", h("div.tiles", {}, Object.entries(told.config).map(([name, value]) => tile(name.replaceAll("_", " "), String(value)))),
      h("div.tiles", {}, tile("trained", told.done), tile("pace", told.pace ?? "unknown"),
        tile("metric", number(told.accuracy)), tile("took", duration(told.seconds)), tile("device time", duration(told.device_seconds))),
      h("p", {}, outcome(told)),
      told.failure ? h("p", {}, told.failure) : null,
      told.modelled ? h("p.muted", {}, "Part of its machine was modelled.") : null,
      told.folder ? h("p.muted.small", {}, "Files: ", code(told.folder)) : null));
  const grid = h("div.grid", { style: "margin-top:1rem" });
  if (points.length) {
    const figure = { data: [{ type: "scatter", mode: "lines+markers", x: points.map((p) => p[told.unit] ?? p.epoch), y: points.map((p) => p.accuracy),
      line: { color: "@s1", width: 2 }, marker: { size: 5 }, name: "measured", hovertemplate: `%{x:,} ${told.unit}: %{y:.4~g}<extra></extra>` }],
    layout: { ...bare(), xaxis: { ...axis(), title: { text: told.unit } }, yaxis: { ...axis(), title: { text: "metric" } } } };
    grid.append(h("section.card.half", {}, h("h2", {}, "Learning curve"), plot(figure, "Learning curve")));
  }
  if (terms.length) {
    grid.append(h("section.card.half", {}, h("h2", {}, "Where the seconds went"), table("Terms", [
      ["term", ([name]) => name], ["seconds", ([, value]) => number(value), { number: true }]], terms)));
  }
  root.append(grid);
  return { title: `Sample ${told.id}` };
}

const axis = () => ({ gridcolor: "@grid", linecolor: "@line", zeroline: false });
const bare = () => ({ margin: { l: 60, r: 12, t: 10, b: 44 }, font: { color: "@muted", size: 13 }, paper_bgcolor: "@clear", plot_bgcolor: "@clear" });
