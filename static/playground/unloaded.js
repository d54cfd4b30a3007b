// What is opened inside a page and doesn't arrive: a message in its place, with a button that asks again.
(function () {
  "use strict";

  const { LOGGED_OUT, UNREACHABLE, whyOf } = window.playgroundSession;
  const template = document.getElementById("pg-unloaded");
  // The message of an element whose request failed, and what it asked for.
  const messages = new WeakMap();
  const requests = new WeakMap();

  const loads = (event) => event.detail.requestConfig?.verb === "get" && event.target.closest("[data-loads]");

  function message(why, login) {
    const note = template.content.firstElementChild.cloneNode(true);
    note.querySelector("[data-unloaded-why]").textContent = why;
    const link = note.querySelector("[data-login]");
    link.hidden = !login;
    link.href = login || "";
    return note;
  }

  // Buttons have it behind them; what opens has it inside, where its content would be.
  function say(event, why, login) {
    if (!loads(event)) return;
    const { target, pathInfo } = event.detail;
    const { elt } = event.detail.requestConfig;
    const note = message(why, login);
    forget(elt);
    messages.set(elt, note);
    requests.set(note, { elt, target, path: pathInfo.requestPath });
    if (elt.matches("button")) elt.after(note);
    else target.replaceChildren(note);
  }

  function forget(element) {
    const note = messages.get(element);
    if (!note) return;
    const hadFocus = note.contains(document.activeElement);
    messages.delete(element);
    note.remove();
    if (hadFocus && element.isConnected) element.focus({ preventScroll: true });
  }

  document.addEventListener("htmx:responseError", (event) => say(event, whyOf(event.detail.xhr.status)));
  document.addEventListener("htmx:sendError", (event) => say(event, UNREACHABLE));
  document.addEventListener("htmx:timeout", (event) => say(event, "The server didn't answer in time."));
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const login = event.detail.xhr.getResponseHeader("HX-Redirect");
    if (login) say(event, LOGGED_OUT, login);
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.shouldSwap) forget(event.detail.requestConfig.elt);
  });

  document.addEventListener("click", (event) => {
    const again = event.target.closest("[data-load-again]");
    const asked = again && requests.get(again.closest(".pg-unloaded"));
    if (asked) htmx.ajax("GET", asked.path, { source: asked.elt, target: asked.target });
  });
})();
