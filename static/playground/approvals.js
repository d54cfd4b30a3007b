// Proposed actions: the keys that decide, the time that is left, and cards that arrive while the page is open.
(function () {
  "use strict";

  // A card that appears under the pointer must not be decided by a click that was meant for something else.
  const JUST_ARRIVED_MS = 700;
  const arrivals = new WeakMap();
  const place = () => document.getElementById("run-approvals");

  // What somebody has begun to write stays when the cards are replaced.
  function typed() {
    const fields = [...document.querySelectorAll("#run-approvals textarea, #run-approvals input[type=checkbox]")];
    return fields.map(({ id, value, checked }) => ({ id, value, checked }));
  }

  function restore(values) {
    for (const { id, value, checked } of values) {
      const field = document.getElementById(id);
      if (!field) continue;
      if (field.type === "checkbox") field.checked = checked;
      else field.value = value;
    }
  }

  // `put` places the new cards where the old ones are.
  window.playgroundApprovals = {
    update(put) {
      const known = new Set([...document.querySelectorAll("[data-action]")].map((card) => card.id));
      const values = typed();
      put();
      restore(values);
      for (const card of document.querySelectorAll("[data-action]")) {
        if (!known.has(card.id)) arrivals.set(card, performance.now());
      }
      tick();
    },
  };

  let before = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target === place()) before = typed();
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "run-approvals") return;
    restore(before);
    tick();
  });

  function problem(event, text) {
    const form = event.target.closest("[data-action] form");
    if (form) form.querySelector("[data-problem]").textContent = text;
  }
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (!event.detail.xhr.getResponseHeader("HX-Redirect")) return;
    problem(event, "You are logged out. Nothing was decided. Log in again in another tab, then come back.");
  });
  document.addEventListener("htmx:sendError", (event) => problem(event, "The server can't be reached. Nothing was decided."));
  document.addEventListener("htmx:responseError", (event) =>
    problem(
      event,
      event.detail.xhr.status === 403
        ? "You can't decide about this any more. Reload the page to see why."
        : "The server didn't answer as expected. Reload the page to see what was decided.",
    ),
  );

  document.addEventListener(
    "click",
    (event) => {
      const button = event.target.closest("[data-action] button[name=decision]");
      if (!button) return;
      const arrived = arrivals.get(button.closest("[data-action]"));
      if (arrived !== undefined && performance.now() - arrived < JUST_ARRIVED_MS) {
        event.preventDefault();
        event.stopPropagation();
      }
    },
    true,
  );

  // Alt+A approves, Alt+R denies: the card that has the focus, else the only one that waits.
  document.addEventListener("keydown", (event) => {
    if (!event.altKey || event.ctrlKey || event.metaKey || event.repeat) return;
    const decision = { KeyA: "approve", KeyR: "deny" }[event.code];
    if (!decision) return;
    const own = document.activeElement && document.activeElement.closest("[data-action]");
    const buttons = [...(own || document).querySelectorAll(`[data-action] button[value=${decision}], button[value=${decision}]`)];
    const open = buttons.filter((button) => button.closest("[data-action]") && !button.disabled);
    if (!open.length) return;
    event.preventDefault();
    // Of several the reader has to choose.
    if (open.length > 1) open[0].focus();
    else open[0].click();
  });

  function left(seconds) {
    if (seconds <= 0) return "now";
    const minutes = Math.floor(seconds / 60);
    if (minutes < 60) return `in ${minutes}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
    const hours = Math.floor(minutes / 60);
    return hours < 48 ? `in ${hours} h ${minutes % 60} min` : `in ${Math.floor(hours / 24)} days`;
  }

  function tick() {
    for (const time of document.querySelectorAll("[data-countdown]")) {
      const text = left(Number(time.dataset.countdown) - Date.now() / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  }

  setInterval(tick, 1000);
  tick();
})();
