// The time axis of the list of steps: its ruler, its grid, and where bars stand on it.
(function () {
  "use strict";

  const run = window.playgroundRun;
  if (!run) return;

  const { byId, inspector, tree, isLong } = run;
  const SVG = "http://www.w3.org/2000/svg";
  const TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600];

  function shape(name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function spell(seconds) {
    if (seconds < 60 || seconds % 60) return String(seconds);
    return seconds < 3600 ? `${seconds / 60} min` : `${seconds / 3600} h`;
  }

  // The time that the list spans: all of the run or, of a long one, that of the rounds on the page. Milliseconds.
  function axis() {
    return { origin: Number(tree().dataset.origin || 0), length: Number(tree().dataset.axis) };
  }

  function clock(seconds) {
    const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
    if (seconds < 60) return `${seconds} s`;
    const rest = `${m}:${String(Number(s.toFixed(2))).padStart(2, "0")}`;
    return h ? `${h}:${rest.padStart(5, "0")}` : rest;
  }

  function drawAxis() {
    const { origin, length } = axis();
    const [from, long] = [origin / 1000, length / 1000];
    // Hundredths, minutes and hours are longer words.
    const step = TICKS.find((tick) => long / tick <= (tick >= 0.1 && tick < 60 ? 4.5 : 3)) || long / 4;
    const ruler = inspector.querySelector("[data-ruler]");
    const grid = inspector.querySelector("[data-grid]");
    ruler.replaceChildren();
    grid.replaceChildren();
    for (let index = Math.ceil(from / step); index * step < from + long * 0.93; index++) {
      const at = Number((index * step).toPrecision(12));
      const x = `${((100 * (at - from)) / long).toFixed(2)}%`;
      const label = isLong() ? clock(at) : index ? spell(at) : "0 s";
      ruler.append(shape("text", { x, y: 12, "text-anchor": at - from < long / 20 ? "start" : "middle" }, label));
      if (index) grid.append(shape("line", { x1: x, x2: x, y1: 0, y2: "100%", class: "pg-gridline" }));
    }
    const live = byId("run-head").dataset.live === "1";
    const end = live || isLong() ? "" : `${long < 100 ? long.toFixed(1) : Math.round(long)} s`;
    inspector.querySelector("[data-axis-end]").textContent = end;
  }

  // Puts the bars in `part` where they belong on this page's axis: news are drawn on that of the whole run.
  function drawBars(part) {
    const { origin, length } = axis();
    for (const bar of part.querySelectorAll("[data-ms]")) {
      const [start, ms] = bar.dataset.ms.split(" ").map(Number);
      bar.setAttribute("x", `${((100 * (start - origin)) / length).toFixed(2)}%`);
      bar.setAttribute("width", `${Math.max((100 * ms) / length, 0.8).toFixed(2)}%`);
    }
  }

  Object.assign(run, { axis, drawAxis, drawBars });
})();
