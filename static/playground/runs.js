// The list of runs: filters apply when they are changed, and nothing is asked for while the page is hidden.
(function () {
  "use strict";

  document.addEventListener("change", (event) => {
    const form = event.target.closest("[data-runs-filters]");
    if (!form) return;
    // What isn't set stays out of the address.
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
    form.submit();
  });

  // The browser's back button brings the page as it was left.
  window.addEventListener("pageshow", () => {
    for (const field of document.querySelectorAll("[data-runs-filters] select")) field.disabled = false;
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.target.matches("[data-poll]")) event.preventDefault();
  });
})();
