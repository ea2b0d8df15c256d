/* The frame: which view is shown, what the server tells, and the theme. */
import { card, h, say } from "./dom.js";
import { overview } from "./overview.js";

const main = document.getElementById("main");
const state = { live: [], pulse: null, view: null, serial: 0 };

const routes = [
  [/^$/, async () => overview],
  [/^job\/(\w+)$/, async () => (await import("./job.js")).job],
  [/^samples$/, async () => (await import("./samples.js")).samples],
  [/^samples\/([\w-]+)$/, async () => (await import("./samples.js")).sample],
  [/^placements$/, async () => (await import("./results.js")).placements],
  [/^placements\/(\w+)$/, async () => (await import("./results.js")).placement],
];

/* A view is async (root, parameters, state) => {title, beat?(changed)}. */
async function show(focus = true) {
  const path = location.hash.replace(/^#\/?/, "").split("?")[0];
  const serial = ++state.serial;
  mark(path);
  const found = routes.map(([pattern, view]) => [path.match(pattern), view]).find(([match]) => match);
  const root = document.createElement("div");
  const slow = setTimeout(() => main.setAttribute("aria-busy", "true"), 150);
  let view = null;
  try {
    if (!found) throw new Error("there is no such page");
    view = await (await found[1]())(root, found[0].slice(1), state);
  } catch (error) {
    root.replaceChildren(h("h1", {}, "Something is missing"),
      card("", h("p.error", { role: "alert" }, error.message), h("p", {}, h("a", { href: "#/" }, "Back to the overview"))));
    view = { title: "not found" };
  }
  clearTimeout(slow);
  if (serial !== state.serial) return;
  main.removeAttribute("aria-busy");
  state.view = view;
  document.title = view.title === "Overview" ? "cotune" : `${view.title} · cotune`;
  main.replaceChildren(...root.childNodes);
  main.dataset.shown = path || "overview";
  if (focus) main.focus({ preventScroll: true });
  if (focus) scrollTo(0, 0);
}

function mark(path) {
  const first = `#/${path.split("/")[0]}`;
  for (const link of document.querySelectorAll(".bar nav a")) {
    if (link.getAttribute("href") === first) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function listen() {
  const badge = document.getElementById("link");
  const source = new EventSource("/api/events");
  const tell = (text, kind) => {
    badge.textContent = text;
    badge.className = `badge ${kind}`;
  };
  source.addEventListener("open", () => tell("live", "live"));
  source.addEventListener("error", () => tell("connection lost", "bad"));
  source.addEventListener("beat", (event) => {
    const told = JSON.parse(event.data);
    if (told.error) {
      tell(told.error, "bad");
      return;
    }
    tell("live", "live");
    const pulse = JSON.stringify(told.pulse);
    const changed = state.pulse !== null && state.pulse !== pulse;
    state.pulse = pulse;
    state.live = told.live;
    state.view?.beat?.(changed);
    if (changed) say("The store has changed.");
  });
  addEventListener("pagehide", () => source.close());
}

function theme() {
  const button = document.getElementById("theme");
  const order = ["auto", "light", "dark"];
  const scheme = { auto: "light dark", light: "light", dark: "dark" };
  const apply = (chosen) => {
    document.documentElement.style.colorScheme = scheme[chosen];
    button.textContent = `Theme: ${chosen}`;
    button.setAttribute("aria-label", `Theme: ${chosen}. Press to change.`);
    if (typeof cotuneFigures !== "undefined") cotuneFigures.redraw();
  };
  let chosen = "auto";
  try {
    chosen = order.includes(localStorage.theme) ? localStorage.theme : "auto";
  } catch { /* no storage: the theme is not remembered */ }
  apply(chosen);
  button.addEventListener("click", () => {
    chosen = order[(order.indexOf(chosen) + 1) % order.length];
    try {
      localStorage.theme = chosen;
    } catch { /* as above */ }
    apply(chosen);
  });
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the view, so the way to the content cannot be one
  main.focus();
});
theme();
addEventListener("hashchange", () => show());
show(false).then(listen);
