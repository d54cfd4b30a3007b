// The fork and retry actions in the head of a run: they are about the step that is open, and say so.
(function () {
  "use strict";

  const link = () => document.querySelector("a[data-fork]");

  function follow() {
    const detail = document.getElementById("step-detail");
    const fork = link();
    if (!fork || !detail || !detail.dataset.fork) return;
    const { step } = detail.dataset;
    fork.href = `${fork.href.split("?")[0]}?at=${step}`;
    fork.querySelector("[data-fork-label]").textContent = detail.dataset.fork;
    const retry = document.querySelector("[data-retry-form]");
    if (!retry) return;
    retry.hidden = detail.dataset.retry === undefined;
    retry.elements.at.value = step;
    retry.querySelector("[data-retry-label]").textContent = detail.dataset.retry || "";
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
