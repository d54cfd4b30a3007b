// The actions in the head of a run that are about one request: they follow the step that is open, and say so.
(function () {
  "use strict";

  const run = window.playgroundRun;
  const link = () => document.querySelector("a[data-fork]");
  const detail = () => document.getElementById("step-detail");

  // With other words the head may take another line and move everything below it: the chosen step stays in sight.
  function follow() {
    if (!detail() || !detail().dataset.fork) return;
    const row = run && run.rowOf(run.state.step);
    const before = row && row.getBoundingClientRect();
    followFork();
    followRetry();
    followCurl();
    const wasInSight = row && before.bottom > 0 && before.top < window.innerHeight;
    if (wasInSight && row.getBoundingClientRect().top !== before.top) run.reveal(row, true);
  }

  function followFork() {
    const fork = link();
    if (!fork) return;
    fork.href = `${fork.href.split("?")[0]}?at=${detail().dataset.step}`;
    fork.querySelector("[data-fork-label]").textContent = detail().dataset.fork;
  }

  function followRetry() {
    const form = document.querySelector("[data-retry-form]");
    if (!form) return;
    const { retry, step } = detail().dataset;
    form.hidden = retry === undefined;
    form.elements.at.value = step;
    form.querySelector("[data-retry-label]").textContent = retry || "";
  }

  function followCurl() {
    const button = document.querySelector("button[data-curl]");
    if (!button) return;
    const { curl, round } = detail().dataset;
    button.hidden = curl === undefined;
    if (button.dataset.copyUrl === curl) return;
    button.dataset.copyUrl = curl || "";
    button.querySelector("span").textContent = `Copy round ${round} as cURL`;
    // What it said about the step before is no longer to be put back.
    delete button.dataset.label;
    delete button.dataset.flash;
  }

  document.addEventListener("pg:detail", follow);
  // The head is replaced while a run goes on.
  new MutationObserver(follow).observe(document.querySelector(".pg"), { childList: true });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select, dialog, [contenteditable]") || !link()) return;
    event.preventDefault();
    link().click();
  });
})();
