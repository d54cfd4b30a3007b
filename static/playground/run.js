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
  // A page of a long run holds the rounds around one step; what else is wanted is fetched.
  const isLong = () => "long" in tree().dataset;

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

  function unmark() {
    for (const other of tree().querySelectorAll('[aria-selected="true"]')) other.setAttribute("aria-selected", "false");
  }

  function mark(row) {
    unmark();
    row.setAttribute("aria-selected", "true");
    makeTabStop(row);
  }

  // Where the list begins below what stays in place above it.
  function listTop() {
    const ruler = inspector.querySelector(".pg-ruler");
    const top = Math.max(scroller.getBoundingClientRect().top, 0);
    return isNarrow() ? top : Math.max(ruler.getBoundingClientRect().bottom, top);
  }

  // Scrolls the list; the page only for the reader's own steps.
  function reveal(row, byReader) {
    const area = scroller.getBoundingClientRect();
    const place = row.getBoundingClientRect();
    const top = listTop();
    const bottom = Math.min(area.bottom, window.innerHeight);
    if (place.top < top) scroller.scrollTop -= top - place.top;
    else if (place.bottom > bottom) scroller.scrollTop += place.bottom - bottom;
    if (byReader && !isNarrow()) row.scrollIntoView({ block: "nearest" });
  }

  function select(step, { tab = state.tab, focus = false, toDetail = false, byReader = true } = {}) {
    if (String(step) === "answer") return showAnswer();
    const row = rowOf(step);
    if (!row && isLong()) {
      unmark();
      fetchWindow({ at: step }).then((found) => {
        const arrived = found && rowOf(state.step);
        if (!arrived) return;
        reveal(arrived, byReader);
        if (focus) arrived.focus({ preventScroll: true });
      });
    } else if (row) {
      const round = row.parentElement.closest(".pg-round");
      if (round) expand(round, true);
      mark(row);
      reveal(row, byReader);
      if (focus) row.focus({ preventScroll: true });
    }
    state.step = Number(step);
    document.dispatchEvent(new CustomEvent("pg:step"));
    load(tab);
    const detail = byId("pg-detail");
    if (toDetail && (isNarrow() || detail.getBoundingClientRect().top < 0)) detail.scrollIntoView({ block: "start" });
  }

  let loading = new AbortController();

  // A part of this page; null where something newer is wanted by now, or the reader has to log in.
  async function fetchPart(url, signal) {
    const response = await fetch(url, {
      headers: { "HX-Request": "true", "HX-Current-URL": location.href },
      signal,
    });
    const login = response.headers.get("HX-Redirect");
    if (login) {
      location.assign(login);
      return null;
    }
    if (!response.ok) throw new Error(response.statusText);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    return signal.aborted ? null : page;
  }

  async function load(tab) {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    const url = inspector.dataset.stepUrl.replace(/\/0\/$/, `/${state.step}/`);
    byId("step-detail").setAttribute("aria-busy", "true");
    try {
      const page = await fetchPart(tab ? `${url}?tab=${encodeURIComponent(tab)}` : url, signal);
      if (page) arrived(document.adoptNode(page.getElementById("step-detail")));
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
    if (row && row.getAttribute("aria-selected") !== "true") {
      mark(row);
      reveal(row, false);
    }
    inspector.querySelector("[data-current-step]").textContent =
      detail.querySelector("[data-step-title]").textContent;
    history.replaceState(history.state, "", `#step-${state.step}/${detail.dataset.tab}`);
    if (state.refocusTab || hadTab) detail.querySelector('[role="tab"][aria-selected="true"]').focus({ preventScroll: true });
    state.refocusTab = false;
    const list = detail.querySelector('[role="tablist"]');
    const tab = list.querySelector('[aria-selected="true"]');
    list.scrollLeft = Math.max(tab.offsetLeft + tab.offsetWidth + 24 - list.clientWidth, 0);
    document.dispatchEvent(new CustomEvent("pg:detail"));
  }

  function move(by, options) {
    const shown = rows();
    const at = shown.findIndex((row) => row.getAttribute("aria-selected") === "true");
    const row = shown[Math.min(Math.max(at + by, 0), shown.length - 1)];
    const isEdge = !row || row === shown[at] || row.id === "step-answer";
    if (isLong() && (at < 0 || (isEdge && byId(by > 0 ? "rounds-after" : "rounds-before")))) {
      seek(by > 0 ? "next" : "previous", options);
    } else if (row && row.id !== "step-answer") select(stepOf(row), options);
  }

  function nextError() {
    if (isLong()) {
      if (Number(byId("step-tree").dataset.failed)) seek("error", { toDetail: true });
      else say("No step failed.");
      return;
    }
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

  // --- the part of a long list that is on the page -----------------------------------------------------------------

  let fetching = new AbortController();

  function filterQuery() {
    const kind = state.chip === "all" ? "" : state.chip;
    const words = byId("step-filter").value.trim();
    return { ...(kind && { kind }), ...(words && { q: words }) };
  }

  // Where the reader is in the list, as the server is asked for it.
  function place(of = {}) {
    const at = state.step === null ? {} : { at: state.step };
    return new URLSearchParams({ ...at, ...filterQuery(), ...of });
  }

  // Puts another part of the list in the place of the one on the page; whether it came, and nothing newer.
  async function fetchWindow(of) {
    fetching.abort();
    fetching = new AbortController();
    const { signal } = fetching;
    tree().setAttribute("aria-busy", "true");
    try {
      const page = await fetchPart(`${inspector.dataset.stepsUrl}?${place(of)}`, signal);
      if (page) replaceList(page);
      return Boolean(page);
    } catch {
      if (!signal.aborted) {
        tree().removeAttribute("aria-busy");
        say("The steps could not be loaded.");
      }
      return false;
    }
  }

  const steps = () => [...tree().querySelectorAll(".pg-step:not(#step-answer)")].filter(isShown);

  // The first of `rows` that isn't scrolled away.
  function visible(rows) {
    const top = listTop();
    return rows.find((row) => row.getBoundingClientRect().bottom > top);
  }

  function visibleStep() {
    const row = isLong() && visible(steps());
    return row ? stepOf(row) : state.step;
  }

  // What the reader looks at stays where it is, and so does the focus.
  function replaceList(page) {
    const focused = tree().contains(document.activeElement) ? document.activeElement.id : "";
    const anchor = visible(steps().filter((row) => page.getElementById(row.id)));
    const before = anchor && anchor.getBoundingClientRect().top;
    tree().replaceWith(document.adoptNode(page.getElementById("step-tree")));
    // A strip that is being used is not exchanged.
    if (!byId("step-overview").contains(document.activeElement)) {
      byId("step-overview").replaceWith(document.adoptNode(page.getElementById("step-overview")));
    }
    for (const chip of page.querySelectorAll("[data-chip]")) {
      const old = inspector.querySelector(`[data-chip="${chip.dataset.chip}"] .n`);
      old.textContent = chip.querySelector(".n").textContent;
    }
    adoptTree();
    if (anchor) scroller.scrollTop += byId(anchor.id).getBoundingClientRect().top - before;
    if (focused) {
      const again = byId(focused) || tree().querySelector('[tabindex="0"]');
      if (again) again.focus({ preventScroll: true });
    }
  }

  // Selects what the server finds from the chosen step on, wherever in the run it is.
  async function seek(find, options) {
    if (!(await fetchWindow({ at: state.step, find }))) return;
    const found = tree().dataset.at;
    if (rowOf(found) && Number(found) !== state.step) select(found, options);
  }

  // More of the list on one side; `by` moves the focus on from the last item there.
  async function extend(side, by = 0) {
    const edge = side === "before" ? steps()[0] : steps().at(-1);
    if (!edge || !(await fetchWindow({ at: stepOf(edge) })) || !by) return;
    const all = items();
    const last = byId(edge.id);
    goTo(all[all.indexOf(side === "before" ? last.closest(".pg-round") : last) + by]);
  }

  // Scrolled to the end of what is there: more is fetched. On a narrow page what follows the list must stay in reach.
  const nearing = new IntersectionObserver(
    (seen) => {
      const range = seen.find((entry) => entry.isIntersecting && entry.target.isConnected);
      if (range && !isNarrow() && !tree().hasAttribute("aria-busy")) extend(range.target.dataset.range);
    },
    { root: scroller, rootMargin: "160px 0px" },
  );

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

  let filterTimer = 0;

  // A long list is filtered by the server: most of it is not here.
  function filterChanged() {
    applyFilter();
    if (!isLong()) return;
    clearTimeout(filterTimer);
    filterTimer = setTimeout(() => fetchWindow({}), 200);
  }

  function applyFilter() {
    const wanted = byId("step-filter").value.trim().toLowerCase();
    const css = { err: "pg-step--err", tool: "pg-step--tool" }[state.chip];
    let shown = 0;
    for (const round of tree().children) {
      if (round.matches(".pg-range")) continue;
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
    // Of a long list the server knows.
    inspector.querySelector("[data-none]").hidden = isLong() ? tree().dataset.total !== "0" : shown > 0;
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
    const step = TICKS.find((tick) => long / tick <= 4.5) || long / 4;
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

  // After the server's list has replaced the one on the page.
  function adoptTree() {
    for (const id of state.closed) if (byId(id)) byId(id).setAttribute("aria-expanded", "false");
    const row = state.step === null ? null : rowOf(state.step);
    if (row) mark(row);
    else if (tree().querySelector(".pg-step")) makeTabStop(tree().querySelector(".pg-step"));
    applyFilter();
    drawAxis();
    nearing.disconnect();
    for (const range of tree().querySelectorAll(".pg-range")) nearing.observe(range);
    document.dispatchEvent(new CustomEvent("pg:steps"));
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
    const range = target.closest(".pg-range");
    if (range) {
      extend(range.dataset.range);
    } else if (row) {
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
      filterChanged();
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
      filterChanged();
    } else if (target.closest("[data-retry]")) {
      load(state.tab);
    } else if (target.closest("[data-jump]") && target.closest("[data-jump]").hash === location.hash) {
      followHash();
    }
  });

  byId("step-filter").addEventListener("input", filterChanged);
  byId("step-filter").addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "ArrowDown") {
      const first = rows()[0];
      if (first) select(stepOf(first), { focus: true });
      event.preventDefault();
    } else if (event.key === "Escape") {
      event.target.value = "";
      filterChanged();
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
    const isRange = item.matches(".pg-range");
    const open = item.getAttribute("aria-expanded") === "true";
    switch (event.key) {
      case "ArrowDown":
        return goTo(all[at + 1]);
      case "ArrowUp":
        return goTo(all[at - 1]);
      case "Home":
        if (all[0].matches(".pg-range")) return goToEnd("first");
        return goTo(all[0]);
      case "End":
        if (isLong() && byId("rounds-after")) return goToEnd("last");
        return goTo(all.at(-1));
      case "ArrowRight":
        if (isRange) extend(item.dataset.range, item.dataset.range === "before" ? -1 : 1);
        else if (isRound && open) goTo(all[at + 1]);
        else if (isRound) expand(item, true);
        return true;
      case "ArrowLeft":
        if (isRound) expand(item, false);
        else goTo(item.parentElement.closest(".pg-round"));
        return true;
      case "Enter":
      case " ":
        if (isRange) extend(item.dataset.range, item.dataset.range === "before" ? -1 : 1);
        else if (isRound) expand(item, !open);
        else {
          chosen();
          select(stepOf(item), { focus: true });
        }
        return true;
    }
    return false;
  }

  // The first or last item of a long list, wherever the page is.
  function goToEnd(find) {
    fetchWindow({ find }).then((found) => found && goTo(items().at(find === "first" ? 0 : -1)));
    return true;
  }

  function goTo(item) {
    if (!item) return true;
    if (item.matches(".pg-range")) {
      extend(item.dataset.range, item.dataset.range === "before" ? -1 : 1);
      return true;
    }
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

  window.playgroundRun = {
    state, select, seek, reload, applyFilter, adoptTree, say, chosen, isLong, axis, drawBars, fetchWindow, place, visibleStep,
  };

  adoptTree();
  if (!followHash()) select(inspector.dataset.start, { byReader: false });
})();
