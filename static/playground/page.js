// What every page of the playground can do: copy, switch between views of the same thing, open dialogs, say what failed.
// Everything is hooked by data attributes and delegated, so fragments that arrive later work too.
(function () {
  "use strict";

  const { LOGGED_OUT, UNREACHABLE, ask, loggedOut, whyOf } = window.playgroundSession;

  function flash(button, word) {
    const label = button.querySelector("span") || button;
    if (button.dataset.label === undefined) button.dataset.label = label.textContent;
    label.textContent = word;
    // Where there is no room for the word, the icon's color says it.
    button.dataset.flash = word;
    clearTimeout(button.flashTimer);
    button.flashTimer = setTimeout(() => {
      if (button.dataset.label !== undefined) label.textContent = button.dataset.label;
      delete button.dataset.label;
      delete button.dataset.flash;
    }, 1500);
  }

  // More than this belongs in a file: where the browser has to lay out a text to copy it, it stands still meanwhile.
  const MAX_COPY_BYTES = navigator.clipboard && window.isSecureContext ? 10_000_000 : 500_000;

  // A page that isn't served over https (or from this machine) has no clipboard of its own.
  function write(text) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "pg-sr";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done ? Promise.resolve() : Promise.reject(new Error("copy refused"));
  }

  async function textOf(button) {
    if (button.dataset.copyUrl) return (await ask(button.dataset.copyUrl)).text();
    if ("copyLink" in button.dataset) return location.href;
    if (button.dataset.copy) return document.querySelector(button.dataset.copy).textContent;
    return button.dataset.copyText;
  }

  // --- what was opened before this was there ------------------------------------------------------------------------

  document.addEventListener("DOMContentLoaded", () => {
    for (const part of document.querySelectorAll('details[open] > [hx-trigger^="toggle"]')) htmx.trigger(part.parentElement, "toggle");
  });

  // --- going back ---------------------------------------------------------------------------------------------------

  // Pages that took each other's place in one document: the browser changes the address, the page is ours to bring.
  let opened = location.pathname;
  document.addEventListener("pg:opened", () => (opened = location.pathname));
  window.addEventListener("popstate", () => location.pathname === opened || location.reload());

  // --- what didn't arrive ------------------------------------------------------------------------------------------

  const AGAIN = "Log in again in another tab, then come back: nothing on this page is lost.";

  // Forms that keep what was typed, the preview, and what is opened inside a page say it in their own place.
  const saysItself = ({ target, detail }) =>
    target.closest("[data-keeps], [data-preview], [data-action]") !== null ||
    (detail.requestConfig.verb === "get" && target.closest("[data-loads]") !== null);

  function failed(event, why, login = false) {
    const note = document.getElementById("pg-failed");
    if (!note || saysItself(event)) return;
    note.querySelector("[data-failed-why]").textContent = why;
    note.querySelector("[data-failed-login]").hidden = !login;
    note.hidden = false;
  }

  // To follow it would throw away what was typed.
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const login = event.detail.xhr.getResponseHeader("HX-Redirect");
    if (!login) return;
    event.preventDefault();
    loggedOut(login);
    failed(event, `${LOGGED_OUT} ${AGAIN}`, true);
  });
  document.addEventListener("pg:login", () => {
    document.getElementById("pg-failed").hidden = true;
  });

  document.addEventListener("htmx:responseError", (event) => {
    const { status } = event.detail.xhr;
    if (status !== 422) failed(event, whyOf(status) + (status >= 500 ? " Try again." : ""));
  });
  document.addEventListener("htmx:sendError", (event) => failed(event, `${UNREACHABLE} Try again.`));
  document.addEventListener("htmx:timeout", (event) => failed(event, "The server didn't answer in time. Try again."));
  document.addEventListener("htmx:afterRequest", (event) => {
    const note = document.getElementById("pg-failed");
    if (note && event.detail.successful) note.hidden = true;
  });

  // A request that another one replaced, or that the reader left behind, is no error to complain about.
  const dropped = new WeakSet();
  document.addEventListener("htmx:beforeSend", (event) => {
    const { xhr } = event.detail;
    const end = xhr.onabort;
    xhr.onabort = (abort) => {
      dropped.add(xhr);
      end.call(xhr, abort);
    };
  });
  htmx.logger = (element, name, detail) => {
    if (detail.xhr && dropped.has(detail.xhr)) delete detail.error;
  };

  document.addEventListener("click", async (event) => {
    const close = event.target.closest("[data-close-failed]");
    if (close) document.getElementById("pg-failed").hidden = true;
    const copy = event.target.closest("[data-copy], [data-copy-text], [data-copy-url], [data-copy-link]");
    if (copy) {
      if (Number(copy.dataset.copySize) > MAX_COPY_BYTES) return flash(copy, "Too large, download it");
      try {
        await write(await textOf(copy));
        flash(copy, "Copied");
      } catch (error) {
        flash(copy, (error.kind === "missing" && copy.dataset.copyMissing) || "Not copied");
      }
      return;
    }
    const dialog = event.target.closest("[data-dialog]");
    if (dialog) document.querySelector(dialog.dataset.dialog).showModal();

    // Buttons of one group show one of several elements: data-show is the selector of theirs.
    const show = event.target.closest("[data-show]");
    if (show) {
      for (const other of show.closest("[role=group]").querySelectorAll("[data-show]")) {
        const on = other === show;
        other.setAttribute("aria-pressed", on);
        document.querySelector(other.dataset.show).hidden = !on;
      }
    }
  });

  // The list of the page's keys.
  document.addEventListener("keydown", (event) => {
    const keys = document.getElementById("pg-keys");
    if (event.key !== "?" || !keys || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select, dialog, [contenteditable]")) return;
    event.preventDefault();
    keys.showModal();
  });
})();
