// The inspector of a run: the list of its steps, and which one is chosen. Its other parts have files of their own and
// share `playgroundRun`: the step's detail with its tabs, the part of a long list that is on the page, the filter, the
// ruler, the reader's clicks and keys. The server renders all of it; the scripts only say what is wanted.
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
      run.fetchWindow({ at: step }).then((found) => {
        const arrived = found && rowOf(state.step);
        if (!arrived) return;
        reveal(arrived, byReader);
        if (focus) arrived.focus({ preventScroll: true });
      });
    } else if (row) {
      const round = row.parentElement.closest(".pg-round");
      if (round) expand(round, true);
      mark(row);
      // When the page opens, not before the browser has laid it out for its first frame anyway.
      if (byReader) reveal(row, byReader);
      else requestAnimationFrame(() => reveal(row, byReader));
      if (focus) row.focus({ preventScroll: true });
    }
    state.step = Number(step);
    document.dispatchEvent(new CustomEvent("pg:step"));
    run.load(tab);
    const detail = byId("pg-detail");
    if (toDetail && (isNarrow() || detail.getBoundingClientRect().top < 0)) detail.scrollIntoView({ block: "start" });
  }

  function move(by, options) {
    const shown = rows();
    const at = shown.findIndex((row) => row.getAttribute("aria-selected") === "true");
    const row = shown[Math.min(Math.max(at + by, 0), shown.length - 1)];
    const isEdge = !row || row === shown[at] || row.id === "step-answer";
    if (isLong() && (at < 0 || (isEdge && byId(by > 0 ? "rounds-after" : "rounds-before")))) {
      run.seek(by > 0 ? "next" : "previous", options);
    } else if (row && row.id !== "step-answer") select(stepOf(row), options);
  }

  function nextError() {
    if (isLong()) {
      if (Number(byId("step-tree").dataset.failed)) run.seek("error", { toDetail: true });
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

  const run = {
    inspector, scroller, state, byId, tree, isLong, isShown, isNarrow, rowOf, stepOf, rows, items,
    makeTabStop, mark, listTop, reveal, select, move, nextError, showAnswer, expand, say,
  };
  window.playgroundRun = run;
})();
