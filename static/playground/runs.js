// The list of runs: filters apply when they are changed, runs are selected, and nothing is asked for while the page is
// hidden.
(function () {
  "use strict";

  // --- filters -----------------------------------------------------------------------------------------------------

  const APPLY_MS = 150;
  let timer = 0;

  // One request for what belongs together: Enter in a field is a change and a submit.
  function apply(form) {
    clearTimeout(timer);
    timer = setTimeout(() => form.dispatchEvent(new Event("filtered")), APPLY_MS);
  }

  document.addEventListener("change", (event) => {
    const form = event.target.closest("[data-runs-filters]");
    if (!form) return;
    // Days take the place of a period, and a period that of days.
    const { name } = event.target;
    if (name === "since" || name === "until") form.elements.when.value = "";
    if (name === "when") form.elements.since.value = form.elements.until.value = "";
    apply(form);
  });

  for (const name of ["submit", "search"]) {
    document.addEventListener(
      name,
      (event) => {
        const form = event.target.closest("[data-runs-filters]");
        if (!form) return;
        event.preventDefault();
        apply(form);
      },
      // A search field that was emptied by its button says so without bubbling.
      true,
    );
  }

  document.addEventListener("htmx:configRequest", (event) => {
    if (!event.target.matches("[data-runs-filters]")) return;
    // What isn't set stays out of the address.
    const { parameters } = event.detail;
    for (const name of Object.keys(parameters)) if (parameters[name] === "") delete parameters[name];
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-more-filters]");
    if (!button) return;
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", open);
    button.form.classList.toggle("is-open", open);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const search = document.querySelector("[data-search]");
    if (!search) return;
    search.focus();
    search.select();
    event.preventDefault();
  });

  // --- selection ---------------------------------------------------------------------------------------------------

  const boxes = () => [...document.querySelectorAll('input[name="run"]')];

  function showSelection() {
    const bar = document.querySelector("[data-selection]");
    if (!bar) return;
    const all = boxes();
    const chosen = all.filter((box) => box.checked);
    bar.hidden = chosen.length === 0;
    bar.querySelector("[data-selected]").textContent = `${chosen.length} ${chosen.length === 1 ? "run" : "runs"} selected`;
    const query = new URLSearchParams(chosen.map((box) => ["run", box.value])).toString();
    bar.querySelector("[data-export-selected]").search = query;
    const compare = bar.querySelector("[data-compare-selected]");
    compare.search = query;
    compare.hidden = chosen.length < 2 || chosen.length > compare.dataset.most;
    const every = document.querySelector("[data-select-all]");
    every.checked = chosen.length === all.length;
    every.indeterminate = chosen.length > 0 && !every.checked;
    if (!chosen.length) document.getElementById("tagged").replaceChildren();
  }

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-select-all]")) {
      for (const box of boxes()) box.checked = event.target.checked;
    }
    if (event.target.matches('[data-select-all], input[name="run"]')) showSelection();
  });

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-clear-selection]")) return;
    const first = boxes().find((box) => box.checked);
    for (const box of boxes()) box.checked = false;
    showSelection();
    if (first) first.focus();
  });

  // A row that is shown anew is selected if it was before.
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const before = event.detail.target.querySelector('input[name="run"]');
    const after = event.detail.fragment.querySelector('input[name="run"]');
    if (before && after && before.checked) after.setAttribute("checked", "");
  });
  document.addEventListener("htmx:oobAfterSwap", showSelection);

  // The chips come with each news of the rows: those that say the same stay, with the place that they were scrolled to.
  const words = (element) => element.textContent.replace(/\s+/g, " ").trim();
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { target, fragment } = event.detail;
    if (target.id === "status_chips" && words(target) === words(fragment)) event.detail.shouldSwap = false;
  });

  // --- live --------------------------------------------------------------------------------------------------------

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.target.matches("[data-poll]")) event.preventDefault();
  });
})();
