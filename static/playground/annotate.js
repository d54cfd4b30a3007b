// Title, tags and note of a run: saved without leaving the page, and what is typed stays until it is saved.
(function () {
  "use strict";

  const SAVE_MS = 1000;
  const unsaved = new Set();

  // --- title and tags ----------------------------------------------------------------------------------------------

  function closeAbout() {
    const form = document.querySelector("[data-about]");
    if (!form) return;
    unsaved.delete("about");
    form.remove();
    const button = document.getElementById("run-about-open");
    if (button) button.focus();
  }

  document.addEventListener("click", (event) => event.target.closest("[data-close-about]") && closeAbout());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.closest("[data-about]")) closeAbout();
  });

  // --- the note ----------------------------------------------------------------------------------------------------

  let timer = 0;

  const area = (form) => form.elements.note;

  function say(form, css, text, again) {
    const state = form.querySelector("[data-save-state]");
    const line = document.createElement("span");
    line.className = css;
    line.textContent = text;
    state.replaceChildren(line);
    if (!again) return;
    const button = document.createElement("button");
    button.className = "pg-btn pg-btn--sm";
    button.textContent = "Try again";
    state.append(button);
  }

  function save(form) {
    clearTimeout(timer);
    timer = 0;
    form.dispatchEvent(new Event("save"));
  }

  document.addEventListener("input", (event) => {
    const note = event.target.closest("[data-own-note]");
    if (note) {
      unsaved.add("note");
      clearTimeout(timer);
      timer = setTimeout(save, SAVE_MS, note);
    } else if (event.target.closest("[data-about]")) unsaved.add("about");
  });

  document.addEventListener("change", (event) => {
    const note = event.target.closest("[data-own-note]");
    if (note && timer) save(note);
  });

  document.addEventListener("submit", (event) => {
    const note = event.target.closest("[data-own-note]");
    if (!note) return;
    event.preventDefault();
    save(note);
  });

  // --- what became of it -------------------------------------------------------------------------------------------

  document.addEventListener("htmx:beforeRequest", (event) => {
    const form = event.target;
    if (!form.matches("[data-own-note]")) return;
    form.dataset.sent = area(form).value;
    say(form, "q", "Saving…");
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    const form = event.target;
    const { successful, xhr } = event.detail;
    if (!form.matches("[data-keeps]")) return;
    if (successful) {
      if (form.matches("[data-about]")) unsaved.delete("about");
      else if (form.dataset.sent === area(form).value) unsaved.delete("note");
      return;
    }
    // The server has said why.
    if (xhr.status === 422) return;
    const why =
      (xhr.getResponseHeader("HX-Redirect") && "You are logged out.") ||
      { 0: "The site did not answer.", 403: "You may not do this any more.", 404: "The run is gone." }[xhr.status] ||
      "Something went wrong at the site.";
    const text = `Not saved. ${why} What you typed is still here.`;
    if (form.matches("[data-own-note]")) return say(form, "pg-err", text, true);
    const item = document.createElement("li");
    item.textContent = text;
    form.querySelector("[data-save-problem]").replaceChildren(item);
  });

  window.addEventListener("beforeunload", (event) => {
    if (unsaved.size) event.preventDefault();
  });
})();
