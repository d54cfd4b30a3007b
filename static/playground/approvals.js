// Proposed actions: the keys that decide, the time that is left, and cards that arrive while the page is open.
(function () {
  "use strict";

  // A card that appears or moves under the pointer, or is the only one left, must not be decided by a click or key that
  // was meant for something else.
  const JUST_ARRIVED_MS = 700;
  const cards = () => document.querySelectorAll("[data-action]");
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
      const known = new Set([...cards()].map((card) => card.id));
      const values = typed();
      const held = document.activeElement.closest("#run-approvals") ? document.activeElement.id : "";
      put();
      restore(values);
      const same = cards().length === known.size && [...cards()].every((card) => known.has(card.id));
      if (!same || decided) arrived();
      refocus(held);
      tick();
    },
  };

  function arrived() {
    const all = [...cards()];
    for (const card of all) card.toggleAttribute("data-arriving", true);
    setTimeout(() => all.forEach((card) => card.removeAttribute("data-arriving")), JUST_ARRIVED_MS);
  }

  // Whoever decides by key reads on where they were: the button that had the focus is gone.
  let decided = "";
  document.addEventListener("submit", (event) => {
    const card = event.target.closest("[data-action]");
    if (card) decided = card.id;
  });

  // The focus goes to where it was, or to the card that somebody has decided about.
  function refocus(id) {
    const element = document.getElementById(id) || document.getElementById(decided);
    decided = "";
    if (element && document.activeElement === document.body) element.focus({ preventScroll: true });
  }

  let before = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target === place()) before = typed();
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "run-approvals") return;
    restore(before);
    arrived();
    refocus(decided);
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
      // One at a time: a decision that is on its way may move the others.
      const busy = document.querySelector("[data-action] form.htmx-request");
      if (busy || button.closest("[data-arriving]")) {
        event.preventDefault();
        event.stopPropagation();
      }
    },
    true,
  );

  // Alt+A approves, Alt+R denies: the card that has the focus, else the only one that waits. Of several that wait the
  // first gets the focus, and it takes another press to decide.
  document.addEventListener("keydown", (event) => {
    if (!event.altKey || event.ctrlKey || event.metaKey || event.repeat) return;
    const decision = { KeyA: "approve", KeyR: "deny" }[event.code];
    if (!decision) return;
    const own = document.activeElement.closest("[data-action]");
    const open = [...document.querySelectorAll(`[data-action] button[value=${decision}]`)];
    if (!open.length) return;
    event.preventDefault();
    const button = open.find((one) => own && own.contains(one));
    // Whoever presses twice means the same card, which may be decided by now.
    const late = own && !button && own.hasAttribute("data-arriving");
    if (late) return;
    if (button) button.click();
    else if (open.length === 1 && !own) open[0].click();
    else open[0].focus();
  });

  function left(seconds) {
    if (seconds <= 0) return "now";
    const minutes = Math.floor(seconds / 60);
    if (minutes < 60) return `in ${minutes}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
    const hours = Math.floor(minutes / 60);
    return hours < 48 ? `in ${hours} h ${minutes % 60} min` : `in ${Math.floor(hours / 24)} days`;
  }

  function age(seconds) {
    const minutes = Math.floor(seconds / 60);
    return minutes < 1 ? "" : minutes < 60 ? ` (${minutes} min)` : ` (${Math.floor(minutes / 60)} h ${minutes % 60} min)`;
  }

  function tick() {
    for (const mark of document.querySelectorAll("[data-age]")) {
      const text = age(Date.now() / 1000 - Number(mark.dataset.age));
      if (mark.textContent !== text) mark.textContent = text;
    }
    for (const time of document.querySelectorAll("[data-countdown]")) {
      const text = left(Number(time.dataset.countdown) - Date.now() / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  }

  setInterval(tick, 1000);
  tick();
})();
