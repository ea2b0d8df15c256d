"use strict";
/* Draws plotly figures in the colours of the page: "@s1/0.5" is the page's --s1 at half opacity. */
const cotuneFigures = (() => {
  const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  const drawn = new Map();

  function colours() {
    const probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
    const known = new Map();
    const read = (name) => {
      if (!known.has(name)) {
        probe.style.color = `var(--${name})`;
        known.set(name, getComputedStyle(probe).color);
      }
      return known.get(name);
    };
    const resolve = (text) => {
      const [name, opacity] = text.slice(1).split("/");
      const colour = read(name);
      if (!opacity) return colour;
      const parts = colour.match(/[\d.]+/g);
      return `rgba(${parts[0]}, ${parts[1]}, ${parts[2]}, ${opacity})`;
    };
    return { resolve, done: () => probe.remove() };
  }

  function painted(value, key, resolve) {
    if (typeof value === "string") {
      return value.startsWith("@") && key.endsWith("color") ? resolve(value) : value;
    }
    if (Array.isArray(value)) {
      return value.length && typeof value[0] === "object" || key.endsWith("color")
        ? value.map((part) => painted(part, key, resolve)) : value;
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, painted(part, name, resolve)]));
    }
    return value;
  }

  function narrowed(layout, element) {
    if (element.clientWidth >= 520) return layout;
    const margin = { ...layout.margin, l: 50, r: 8 };
    return { ...layout, margin, font: { ...layout.font, size: 11 } };
  }

  function draw(element, figure) {
    drawn.set(element, figure);
    const { resolve, done } = colours();
    const { data, layout } = painted(figure, "", resolve);
    done();
    layout.font = { ...layout.font, family: getComputedStyle(document.body).fontFamily };
    return Plotly.react(element, data, narrowed(layout, element), CONFIG);
  }

  function redraw() {
    for (const [element, figure] of drawn) {
      if (element.isConnected) draw(element, figure);
      else drawn.delete(element);
    }
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
  addEventListener("beforeprint", redraw);
  return { draw, redraw };
})();
