// A form that starts a run sends itself: what goes wrong is said beside its button, and nothing that was typed is lost.
// Where the answer holds the page of the run, that takes the place of the form's: to leave a page and open another one
// takes a browser as long as the server takes for everything up to the first step.
(function () {
  "use strict";

  const { Refusal, ask } = window.playgroundSession;
  const form = document.querySelector("[data-new-run]");
  if (!form) return;
  const note = form.querySelector("[data-not-sent]");
  // The browser sends the form: it was refused, and the page that comes says why.
  let plainly = false;

  async function send(button) {
    const fields = new FormData(form);
    if (button && button.name) fields.append(button.name, button.value);
    const hasFiles = form.enctype === "multipart/form-data";
    const answer = await ask(form.action, { send: hasFiles ? fields : new URLSearchParams(fields) });
    if (answer.status === 204) return null;
    const address = answer.headers.get("Location");
    if (!address) throw new Refusal("failed", "The server didn't answer as expected.");
    // Where its page breaks off, the run is there all the same.
    return { address, html: await answer.text().catch(() => "") };
  }

  // What no answer tells of may have been started all the same.
  const UNSURE = new Set(["unreachable", "failed"]);

  function refuse({ kind, message }) {
    const unsure = UNSURE.has(kind);
    note.querySelector("[data-what]").textContent = unsure ? "The run may have been started." : "Nothing was started.";
    const next = unsure ? "Look at all runs before you send it again." : "Nothing on this page is lost.";
    note.querySelector("[data-why]").textContent = `${message} ${next}`;
    note.querySelector("[data-login]").hidden = kind !== "login";
    note.hidden = false;
  }

  form.addEventListener("submit", async (event) => {
    if (plainly) return;
    event.preventDefault();
    // One click, one run.
    if (form.dataset.sent) return;
    form.dataset.sent = "yes";
    note.hidden = true;
    let started;
    try {
      started = await send(event.submitter);
    } catch (error) {
      delete form.dataset.sent;
      return refuse(error);
    }
    if (started) open(started);
    else sendPlainly(event.submitter);
  });

  function open({ address, html }) {
    if (!html || !takePlace(new DOMParser().parseFromString(html, "text/html"), address)) location.assign(address);
  }

  function sendPlainly(button) {
    plainly = true;
    form.requestSubmit(button);
  }

  window.addEventListener("pageshow", () => {
    plainly = false;
    delete form.dataset.sent;
  });
  document.addEventListener("pg:login", () => (note.hidden = true));

  // --- the page of the run -----------------------------------------------------------------------------------------

  // Ours are the way to the page and what is in it; the frame around them is the site's and stays.
  const PARTS = [".breadcrumbs", "main"];

  // Whether `page` could be shown here.
  function takePlace(page, address) {
    const pairs = PARTS.map((part) => [document.querySelector(part), page.querySelector(part)]);
    if (!pairs.every(([old, fresh]) => old && fresh)) return false;
    remember(address);
    // While the browser knows where everything is; afterwards it would have to lay the new page out for it.
    window.scrollTo({ top: 0, behavior: "instant" });
    history.pushState(null, "", address);
    document.title = page.title;
    for (const [old, fresh] of pairs) {
      old.replaceWith(fresh);
      htmx.process(fresh);
    }
    document.dispatchEvent(new CustomEvent("pg:opened"));
    // What there is to see comes first.
    requestAnimationFrame(() => setTimeout(addScripts, 0, page));
    said.textContent = page.title;
    return true;
  }

  // A new page is read out by its name. What says it here has to be there before.
  const said = document.createElement("p");
  said.className = "pg-sr";
  said.role = "status";
  document.body.append(said);

  function addScripts(page) {
    const here = new Set([...document.scripts].map(({ src }) => src));
    for (const { src } of page.querySelectorAll("script[src]")) {
      if (here.has(src)) continue;
      const script = document.createElement("script");
      // In their order.
      script.async = false;
      script.src = src;
      document.head.append(script);
    }
  }

  // --- the way back ------------------------------------------------------------------------------------------------

  const texts = () => [...form.elements].filter((field) => field.name && field.matches("textarea, [type=text]"));

  // Who goes back finds the form as the run was started with it. What was typed is kept as a browser keeps it: the run
  // may hold less.
  function remember(address) {
    const again = `${form.dataset.again}${address.match(/(\d+)\/$/)[1]}`;
    try {
      history.replaceState({ typed: texts().map(({ name, value }) => [name, value]) }, "", again);
    } catch {
      // More than this browser keeps.
      history.replaceState(null, "", again);
    }
  }

  const values = new Map(history.state && history.state.typed);
  for (const field of texts()) {
    // What the browser has put back is newer.
    const isTouched = field.value !== field.defaultValue;
    if (values.has(field.name) && !isTouched) field.value = values.get(field.name);
  }
})();
