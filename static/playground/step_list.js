// The part of a long list of steps that is on the page, and fetching any other.
(function () {
  "use strict";

  const run = window.playgroundRun;
  if (!run) return;

  const { byId, inspector, scroller, state, tree, isLong, isShown, isNarrow, items, listTop, makeTabStop, mark, rowOf, select, stepOf } = run;
  const { askForPage } = window.playgroundSession;
  let fetching = new AbortController();
  let wanted = {};

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

  // Puts another part of the list in the place of the one on the page; whether it came, and nothing newer. `quiet` is what nobody asked for.
  async function fetchWindow(of, { quiet = false } = {}) {
    fetching.abort();
    fetching = new AbortController();
    const { signal } = fetching;
    tree().setAttribute("aria-busy", "true");
    try {
      const page = await askForPage(`${inspector.dataset.stepsUrl}?${place(of)}`, { signal });
      if (signal.aborted) return false;
      unloaded();
      replaceList(page);
      return true;
    } catch (error) {
      if (!signal.aborted && !quiet) unloaded(error, of);
      else if (!signal.aborted) tree().removeAttribute("aria-busy");
      return false;
    }
  }

  // What was asked for and did not come, said above the list until something comes.
  function unloaded(error, of) {
    const note = byId("steps-failed");
    note.hidden = !error;
    if (!error) return;
    wanted = of;
    tree().removeAttribute("aria-busy");
    note.querySelector("[data-failed-why]").textContent = error.message;
    note.querySelector("[data-login]").hidden = error.kind !== "login";
  }

  const askAgain = () => fetchWindow(wanted);
  document.addEventListener("pg:login", () => byId("steps-failed").hidden || askAgain());

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
    run.goTo(all[all.indexOf(side === "before" ? last.closest(".pg-round") : last) + by]);
  }

  // Scrolled to the end of what is there: more is fetched. On a narrow page what follows the list must stay in reach.
  const nearing = new IntersectionObserver(
    (seen) => {
      const range = seen.find((entry) => entry.isIntersecting && entry.target.isConnected);
      if (range && !isNarrow() && !tree().hasAttribute("aria-busy")) extend(range.target.dataset.range);
    },
    { root: scroller, rootMargin: "160px 0px" },
  );

  // After the server's list has replaced the one on the page.
  function adoptTree() {
    for (const id of state.closed) if (byId(id)) byId(id).setAttribute("aria-expanded", "false");
    const row = state.step === null ? null : rowOf(state.step);
    if (row) mark(row);
    else if (tree().querySelector(".pg-step")) makeTabStop(tree().querySelector(".pg-step"));
    run.applyFilter();
    run.drawAxis();
    nearing.disconnect();
    for (const range of tree().querySelectorAll(".pg-range")) nearing.observe(range);
    document.dispatchEvent(new CustomEvent("pg:steps"));
  }

  Object.assign(run, { fetchWindow, askAgain, place, visibleStep, seek, extend, adoptTree });
})();
