// What the reader of a run does: clicks, keys, and the address of a step.
(function () {
  "use strict";

  const run = window.playgroundRun;
  if (!run) return;

  const { byId, inspector, state, tree, isLong, isNarrow, stepOf, rows, items, makeTabStop, reveal, select, move, nextError, showAnswer, expand } = run;

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
      run.extend(range.dataset.range);
    } else if (row) {
      chosen();
      select(stepOf(row), { focus: !isNarrow(), toDetail: true });
    } else if (head) {
      expand(head.parentElement, head.parentElement.getAttribute("aria-expanded") !== "true");
      makeTabStop(head.parentElement);
      head.parentElement.focus({ preventScroll: true });
    } else if (tab && inspector.contains(tab)) {
      run.openTab(tab, false);
    } else if (chip) {
      state.chip = chip.dataset.chip;
      run.filterChanged();
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
      run.filterChanged();
    } else if (target.closest("[data-steps-again]")) {
      run.askAgain();
    } else if (target.closest("[data-retry]")) {
      run.load(state.tab);
    } else if (target.closest("[data-jump]") && target.closest("[data-jump]").hash === location.hash) {
      followHash();
    }
  });

  byId("step-filter").addEventListener("input", run.filterChanged);
  byId("step-filter").addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "ArrowDown") {
      const first = rows()[0];
      if (first) select(stepOf(first), { focus: true });
      event.preventDefault();
    } else if (event.key === "Escape") {
      event.target.value = "";
      run.filterChanged();
    }
  });

  // The reader chose a step: the newest one is no longer followed.
  function chosen() {
    document.dispatchEvent(new CustomEvent("pg:chosen"));
  }

  const KEYS = {
    j: () => (chosen(), move(1, { focus: inTree() })),
    k: () => (chosen(), move(-1, { focus: inTree() })),
    "[": () => run.moveTab(-1, document.activeElement.matches('[role="tab"]')),
    "]": () => run.moveTab(1, document.activeElement.matches('[role="tab"]')),
    e: () => (chosen(), nextError()),
    "/": () => byId("step-filter").focus(),
    g: showAnswer,
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
    if (by) run.moveTab(by, true);
    else if (event.key === "Home") run.openTab(run.tabs()[0], true);
    else if (event.key === "End") run.openTab(run.tabs().at(-1), true);
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
        if (isRange) run.extend(item.dataset.range, item.dataset.range === "before" ? -1 : 1);
        else if (isRound && open) goTo(all[at + 1]);
        else if (isRound) expand(item, true);
        return true;
      case "ArrowLeft":
        if (isRound) expand(item, false);
        else goTo(item.parentElement.closest(".pg-round"));
        return true;
      case "Enter":
      case " ":
        if (isRange) run.extend(item.dataset.range, item.dataset.range === "before" ? -1 : 1);
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
    run.fetchWindow({ find }).then((found) => found && goTo(items().at(find === "first" ? 0 : -1)));
    return true;
  }

  function goTo(item) {
    if (!item) return true;
    if (item.matches(".pg-range")) {
      run.extend(item.dataset.range, item.dataset.range === "before" ? -1 : 1);
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

  Object.assign(run, { chosen, goTo });

  run.adoptTree();
  if (!followHash()) select(inspector.dataset.start, { byReader: false });
})();
