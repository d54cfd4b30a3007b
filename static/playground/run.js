// The inspector of a run: choosing steps and tabs, the keys, the filter, the ruler.
// The server renders every detail; this only says which one is wanted.
(function () {
  "use strict";

  const inspector = document.getElementById("inspector");
  if (!inspector) return;

  const byId = (id) => document.getElementById(id);
  const tree = () => byId("step-tree");
  const scroller = inspector.querySelector(".pg-steps__in");
  // `tab` is what the reader chose last: a step without such a tab opens on its own first one.
  const state = { step: null, tab: "", chip: "all", refocusTab: false, closed: new Set() };

  // --- steps -------------------------------------------------------------------------------------------------------

  const rowOf = (step) => byId(`step-${step}`);
  const stepOf = (row) => row.id.slice("step-".length);
  const isShown = (item) => !item.hidden && !item.parentElement.closest('[hidden], [aria-expanded="false"]');
  const rows = () => [...tree().querySelectorAll(".pg-step")].filter(isShown);
  const items = () => [...tree().querySelectorAll('[role="treeitem"]')].filter(isShown);
  const isNarrow = () => getComputedStyle(inspector.querySelector(".pg-stepnav")).display !== "none";

  function makeTabStop(item) {
    for (const other of tree().querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    item.tabIndex = 0;
  }

  function mark(row) {
    for (const other of tree().querySelectorAll('[aria-selected="true"]')) other.setAttribute("aria-selected", "false");
    row.setAttribute("aria-selected", "true");
    makeTabStop(row);
  }

  // Scrolls the list; the page only for the reader's own steps.
  function reveal(row, byReader) {
    const area = scroller.getBoundingClientRect();
    const place = row.getBoundingClientRect();
    const top = Math.max(area.top, 0) + 72;
    const bottom = Math.min(area.bottom, window.innerHeight);
    if (place.top < top) scroller.scrollTop -= top - place.top;
    else if (place.bottom > bottom) scroller.scrollTop += place.bottom - bottom;
    if (byReader && !isNarrow()) row.scrollIntoView({ block: "nearest" });
  }

  function select(step, { tab = state.tab, focus = false, toDetail = false, byReader = true } = {}) {
    if (String(step) === "answer") return showAnswer();
    const row = rowOf(step);
    if (row) {
      const round = row.parentElement.closest(".pg-round");
      if (round) expand(round, true);
      mark(row);
      reveal(row, byReader);
      if (focus) row.focus({ preventScroll: true });
    }
    state.step = Number(step);
    load(tab);
    const detail = byId("pg-detail");
    if (toDetail && (isNarrow() || detail.getBoundingClientRect().top < 0)) detail.scrollIntoView({ block: "start" });
  }

  let loading = new AbortController();

  async function load(tab) {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    const url = inspector.dataset.stepUrl.replace(/\/0\/$/, `/${state.step}/`);
    byId("step-detail").setAttribute("aria-busy", "true");
    try {
      const response = await fetch(tab ? `${url}?tab=${encodeURIComponent(tab)}` : url, {
        headers: { "HX-Request": "true", "HX-Current-URL": location.href },
        signal,
      });
      const login = response.headers.get("HX-Redirect");
      if (login) return location.assign(login);
      if (!response.ok) throw new Error(response.statusText);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (signal.aborted) return;
      arrived(document.adoptNode(page.getElementById("step-detail")));
    } catch {
      if (!signal.aborted) loadingFailed();
    }
  }

  function loadingFailed() {
    const detail = byId("step-detail");
    detail.replaceChildren(byId("step-failed").content.cloneNode(true));
    detail.removeAttribute("aria-busy");
    delete detail.dataset.step;
  }

  // The step that is open, as the server has it now; the tab that is open stays.
  function reload() {
    load(byId("step-detail").dataset.tab || state.tab);
  }

  function arrived(detail) {
    const before = byId("step-detail");
    const hadTab = before.contains(document.activeElement) && document.activeElement.matches('[role="tab"]');
    before.replaceWith(detail);
    htmx.process(detail);
    state.step = Number(detail.dataset.step);
    const row = rowOf(state.step);
    if (row && row.getAttribute("aria-selected") !== "true") mark(row);
    inspector.querySelector("[data-current-step]").textContent =
      detail.querySelector("[data-step-title]").textContent;
    history.replaceState(history.state, "", `#step-${state.step}/${detail.dataset.tab}`);
    if (state.refocusTab || hadTab) detail.querySelector('[role="tab"][aria-selected="true"]').focus({ preventScroll: true });
    state.refocusTab = false;
    const list = detail.querySelector('[role="tablist"]');
    const tab = list.querySelector('[aria-selected="true"]');
    list.scrollLeft = Math.max(tab.offsetLeft + tab.offsetWidth + 24 - list.clientWidth, 0);
  }

  function move(by, options) {
    const shown = rows();
    const at = shown.findIndex((row) => row.getAttribute("aria-selected") === "true");
    const row = shown[Math.min(Math.max(at + by, 0), shown.length - 1)];
    if (row && row.id !== "step-answer") select(stepOf(row), options);
  }

  function nextError() {
    const all = rows();
    const at = all.findIndex((row) => row.getAttribute("aria-selected") === "true");
    const errors = all.filter((row) => row.classList.contains("pg-step--err"));
    const next = errors.find((row) => all.indexOf(row) > at) || errors[0];
    if (next) select(stepOf(next), { toDetail: true });
    else say("No step failed.");
  }

  function showAnswer() {
    const answer = byId("answer");
    if (!answer) return;
    answer.scrollIntoView({ block: "start" });
    answer.focus({ preventScroll: true });
  }

  function expand(round, open) {
    round.setAttribute("aria-expanded", open);
    if (open) state.closed.delete(round.id);
    else state.closed.add(round.id);
  }

  function say(text) {
    byId("run-status").textContent = text;
  }

  // --- tabs --------------------------------------------------------------------------------------------------------

  const tabs = () => [...byId("step-detail").querySelectorAll('[role="tab"]')];

  function openTab(tab, refocus) {
    for (const other of tabs()) {
      other.setAttribute("aria-selected", other === tab);
      other.tabIndex = other === tab ? 0 : -1;
    }
    state.tab = tab.dataset.tab;
    state.refocusTab = refocus;
    load(state.tab);
  }

  function moveTab(by, refocus) {
    const all = tabs();
    const at = all.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
    if (all.length) openTab(all[(at + by + all.length) % all.length], refocus);
  }

  // --- filter ------------------------------------------------------------------------------------------------------

  const words = new WeakMap();

  function textOf(row) {
    if (!words.has(row)) {
      const round = row.parentElement.closest(".pg-round");
      const label = round ? round.querySelector("b").textContent : "";
      words.set(row, `${label} ${row.querySelector(".pg-step__n").textContent}`.toLowerCase());
    }
    return words.get(row);
  }

  function applyFilter() {
    const wanted = byId("step-filter").value.trim().toLowerCase();
    const css = { err: "pg-step--err", tool: "pg-step--tool" }[state.chip];
    let shown = 0;
    for (const round of tree().children) {
      const own = round.matches(".pg-step") ? [round] : [...round.querySelectorAll(".pg-step")];
      let left = 0;
      for (const row of own) {
        const hide = Boolean(css && !row.classList.contains(css)) || (wanted !== "" && !textOf(row).includes(wanted));
        // Setting an attribute to what it is costs as much as changing it.
        if (row.hidden !== hide) row.hidden = hide;
        left += !hide;
      }
      if (own[0] !== round && round.hidden !== (left === 0)) round.hidden = left === 0;
      shown += left;
    }
    inspector.querySelector("[data-none]").hidden = shown > 0;
    for (const chip of inspector.querySelectorAll("[data-chip]")) {
      chip.setAttribute("aria-pressed", chip.dataset.chip === state.chip);
    }
  }

  // --- ruler -------------------------------------------------------------------------------------------------------

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

  function drawAxis() {
    const axis = Number(tree().dataset.axis) / 1000;
    const step = TICKS.find((tick) => axis / tick <= 4.5) || axis / 4;
    const ruler = inspector.querySelector("[data-ruler]");
    const grid = inspector.querySelector("[data-grid]");
    ruler.replaceChildren();
    grid.replaceChildren();
    for (let index = 0; index * step < axis * 0.93; index++) {
      const at = Number((index * step).toPrecision(12));
      const x = `${((100 * at) / axis).toFixed(2)}%`;
      ruler.append(shape("text", { x, y: 12, "text-anchor": index ? "middle" : "start" }, index ? spell(at) : "0 s"));
      if (index) grid.append(shape("line", { x1: x, x2: x, y1: 0, y2: "100%", class: "pg-gridline" }));
    }
    const live = byId("run-head").dataset.live === "1";
    inspector.querySelector("[data-axis-end]").textContent = live ? "" : `${axis < 100 ? axis.toFixed(1) : Math.round(axis)} s`;
  }

  // After the server's list has replaced the one on the page.
  function adoptTree() {
    for (const id of state.closed) if (byId(id)) byId(id).setAttribute("aria-expanded", "false");
    const row = state.step === null ? null : rowOf(state.step);
    if (row) mark(row);
    else if (tree().querySelector(".pg-step")) makeTabStop(tree().querySelector(".pg-step"));
    applyFilter();
    drawAxis();
  }

  // --- what the reader does ----------------------------------------------------------------------------------------

  document.addEventListener("click", (event) => {
    const target = event.target;
    const row = target.closest(".pg-step");
    const head = target.closest(".pg-round__h");
    const tab = target.closest('[role="tab"]');
    const chip = target.closest("[data-chip]");
    const by = target.closest("[data-move]");
    const fold = target.closest("[data-fold]");
    if (row) {
      chosen();
      select(stepOf(row), { focus: !isNarrow(), toDetail: true });
    } else if (head) {
      expand(head.parentElement, head.parentElement.getAttribute("aria-expanded") !== "true");
      makeTabStop(head.parentElement);
      head.parentElement.focus({ preventScroll: true });
    } else if (tab && inspector.contains(tab)) {
      openTab(tab, false);
    } else if (chip) {
      state.chip = chip.dataset.chip;
      applyFilter();
    } else if (by) {
      chosen();
      move(Number(by.dataset.move), { toDetail: true });
    } else if (fold) {
      const inner = [...fold.closest(".pg-code").querySelectorAll(".pg-json details details")];
      const open = inner.some((details) => details.open);
      for (const details of inner) details.open = !open;
      fold.textContent = open ? "Expand" : "Collapse";
    } else if (target.closest("[data-clear-filter]")) {
      byId("step-filter").value = "";
      state.chip = "all";
      applyFilter();
    } else if (target.closest("[data-retry]")) {
      load(state.tab);
    } else if (target.closest("[data-jump]") && target.closest("[data-jump]").hash === location.hash) {
      followHash();
    }
  });

  byId("step-filter").addEventListener("input", applyFilter);
  byId("step-filter").addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "ArrowDown") {
      const first = rows()[0];
      if (first) select(stepOf(first), { focus: true });
      event.preventDefault();
    } else if (event.key === "Escape") {
      event.target.value = "";
      applyFilter();
    }
  });

  // The reader chose a step: the newest one is no longer followed.
  function chosen() {
    document.dispatchEvent(new CustomEvent("pg:chosen"));
  }

  const KEYS = {
    j: () => (chosen(), move(1, { focus: inTree() })),
    k: () => (chosen(), move(-1, { focus: inTree() })),
    "[": () => moveTab(-1, document.activeElement.matches('[role="tab"]')),
    "]": () => moveTab(1, document.activeElement.matches('[role="tab"]')),
    e: () => (chosen(), nextError()),
    "/": () => byId("step-filter").focus(),
    g: showAnswer,
    "?": () => byId("pg-keys").showModal(),
  };

  const inTree = () => tree().contains(document.activeElement);

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select, dialog, [contenteditable]")) return;
    const tab = event.target.closest('[role="tab"]');
    const item = event.target.closest('[role="treeitem"]');
    if (tab && tabKey(event)) event.preventDefault();
    else if (item && treeKey(event, item)) event.preventDefault();
    else if (Object.hasOwn(KEYS, event.key)) {
      KEYS[event.key]();
      event.preventDefault();
    }
  });

  function tabKey(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) moveTab(by, true);
    else if (event.key === "Home") openTab(tabs()[0], true);
    else if (event.key === "End") openTab(tabs().at(-1), true);
    else return false;
    return true;
  }

  function treeKey(event, item) {
    const all = items();
    const at = all.indexOf(item);
    const isRound = item.matches(".pg-round");
    const open = item.getAttribute("aria-expanded") === "true";
    switch (event.key) {
      case "ArrowDown":
        return goTo(all[at + 1]);
      case "ArrowUp":
        return goTo(all[at - 1]);
      case "Home":
        return goTo(all[0]);
      case "End":
        return goTo(all.at(-1));
      case "ArrowRight":
        if (isRound && open) goTo(all[at + 1]);
        else if (isRound) expand(item, true);
        return true;
      case "ArrowLeft":
        if (isRound) expand(item, false);
        else goTo(item.parentElement.closest(".pg-round"));
        return true;
      case "Enter":
      case " ":
        if (isRound) expand(item, !open);
        else {
          chosen();
          select(stepOf(item), { focus: true });
        }
        return true;
    }
    return false;
  }

  function goTo(item) {
    if (!item) return true;
    if (item.matches(".pg-round") || item.id === "step-answer") {
      makeTabStop(item);
      item.focus({ preventScroll: true });
      reveal(item.querySelector(".pg-round__h") || item, true);
    } else {
      chosen();
      select(stepOf(item), { focus: true });
    }
    return true;
  }

  function followHash() {
    const found = location.hash.match(/^#step-(\d+)(?:\/([\w-]+))?$/);
    if (!found) return false;
    if (found[2]) state.tab = found[2];
    chosen();
    select(found[1], { toDetail: true });
    return true;
  }

  window.addEventListener("hashchange", () => {
    const here = `#step-${state.step}/${byId("step-detail").dataset.tab}`;
    if (location.hash !== here) followHash();
  });

  window.playgroundRun = { state, select, reload, applyFilter, adoptTree, say };

  adoptTree();
  if (!followHash()) select(inspector.dataset.start, { byReader: false });
})();
