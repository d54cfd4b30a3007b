// The filter above the list of steps: by words, and by kind.
(function () {
  "use strict";

  const run = window.playgroundRun;
  if (!run) return;

  const { byId, inspector, state, tree, isLong } = run;
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
    filterTimer = setTimeout(() => run.fetchWindow({}), 200);
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

  Object.assign(run, { applyFilter, filterChanged });
})();
