// The form that starts a run asks first whether its reader is still logged in: the way over the login page would lose
// everything that was typed.
(function () {
  "use strict";

  const { ask } = window.playgroundSession;
  const form = document.querySelector("[data-new-run]");
  const note = document.querySelector("[data-not-sent]");
  if (!form || !note) return;

  // While somebody types, the preview is asked for: a click soon after it needs no question of its own.
  const FRESH_MS = 30_000;
  let answered = Date.now();
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (detail.successful && !detail.xhr.getResponseHeader("HX-Redirect")) answered = Date.now();
  });
  document.addEventListener("pg:login", () => (note.hidden = true));

  async function isLoggedIn() {
    try {
      await ask(location.pathname + location.search, { whole: true });
      return true;
    } catch (error) {
      note.querySelector("[data-why]").textContent = `${error.message} Nothing on this page is lost.`;
      note.querySelector("[data-login]").hidden = error.kind !== "login";
      note.hidden = false;
      return false;
    }
  }

  // Before whoever counts clicks: what is held back is no click.
  form.addEventListener(
    "submit",
    async (event) => {
      if (Date.now() - answered < FRESH_MS) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      const { submitter } = event;
      if (!(await isLoggedIn())) return;
      note.hidden = true;
      answered = Date.now();
      form.requestSubmit(submitter);
    },
    true,
  );
})();
