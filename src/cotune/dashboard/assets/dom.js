/* Elements, numbers and answers: what every view is made of. Text is only ever set as text. */

export function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export async function ask(path, options = {}) {
  const reply = await fetch(path, { headers: { accept: "application/json" }, ...options });
  if (reply.status === 401) {
    location.reload();
    throw new Error("the token is missing or wrong");
  }
  const told = await reply.json();
  if (!reply.ok) throw new Error(told.error || `the server answered ${reply.status}`);
  return told;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "never";
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  let minutes = Math.floor(Math.round(seconds) / 60);
  const left = Math.round(seconds) % 60;
  let hours = Math.floor(minutes / 60);
  minutes %= 60;
  const days = Math.floor(hours / 24);
  hours %= 24;
  if (days) return `${days} d ${hours} h`;
  const two = (value) => String(value).padStart(2, "0");
  return hours ? `${hours} h ${two(minutes)} min` : `${minutes} min ${two(left)} s`;
}

export function number(value, digits = 4) {
  if (value === null || value === undefined) return "";
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(1);
  if (Math.abs(value) >= 10 ** (digits - 1)) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(digits)));
}

export function count(value) {
  return value.toLocaleString("en");
}

export function when(iso) {
  if (!iso) return "";
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return iso;
  const seconds = (Date.now() - time) / 1000;
  const said = seconds < 60 ? "just now" : seconds < 3600 ? `${Math.floor(seconds / 60)} min ago`
    : seconds < 86400 ? `${Math.floor(seconds / 3600)} h ago`
    : time.toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
  return h("time", { datetime: iso, title: time.toLocaleString("en") }, said);
}

export function badge(text, kind = "") {
  return h(kind ? `span.badge.${kind}` : "span.badge", {}, text);
}

/* columns: [title, row => content, {number: true, text: true}] */
export function table(caption, columns, rows, marked = null) {
  const kind = (options) => [options?.number && "number", options?.text && "text"].filter(Boolean).join(" ") || null;
  const head = columns.map(([title, , options]) => h("th", { scope: "col", class: kind(options) }, title));
  const body = rows.map((row, place) => h("tr", { class: place === marked ? "marked" : null },
    columns.map(([, cell, options]) => h("td", { class: kind(options) }, cell(row)))));
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption.hidden", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

export function tile(name, value, range = "", kind = "", limit = "") {
  return h(kind ? `div.tile.${kind}` : "div.tile", {}, h("div.name", {}, name),
    h("div.value", {}, value, limit && h("small", {}, limit)), range && h("div.range", {}, range));
}

export function card(title, ...children) {
  return h("section.card", {}, title && h("h2", {}, title), ...children);
}

export function empty(title, ...lines) {
  return h("div.card.empty", {}, h("h2", {}, title), lines.map((line) => h("p", {}, line)));
}

export function code(text) {
  return h("code", {}, text);
}

let loading = null;
function load(address) {
  return new Promise((done, failed) => {
    document.head.append(h("script", { src: address, onload: done, onerror: () => failed(new Error(`no ${address}`)) }));
  });
}

/* Plotly is large and only needed where something is drawn: it comes when it is first asked for. */
export function plotting() {
  loading ??= load("/assets/plotly.js").then(() => load("/assets/figures.js"));
  return loading;
}

export function plot(figure, label, caption = "") {
  const element = h("div.plot", { role: "img", "aria-label": label });
  if (figure?.layout?.height) element.style.height = `${figure.layout.height}px`;
  if (figure) draw(element, figure);
  return h("figure", {}, element, caption && h("figcaption", {}, caption));
}

export async function draw(element, figure) {
  await plotting();
  await new Promise(requestAnimationFrame);
  if (!element.isConnected) return;
  await cotuneFigures.draw(element, figure);
  element.dataset.drawn = "true";
}

export function say(text) {
  document.getElementById("said").textContent = text;
}
