// The list of runs: filters apply when they are changed, and nothing is asked for while the page is hidden.
(function () {
  "use strict";

  document.addEventListener("change", (event) => {
    const form = event.target.closest("[data-runs-filters]");
    if (!form) return;
    // What isn't set stays out of the address.
    const query = new URLSearchParams(Array.from(new FormData(form)).filter(([, value]) => value)).toString();
    location.assign(location.pathname + (query && `?${query}`));
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.target.matches("[data-poll]")) event.preventDefault();
  });
})();
