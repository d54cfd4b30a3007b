// Why the server refused something, and going on after logging in again in another tab: nothing on the page is lost.
(function () {
  "use strict";

  const WHY = {
    403: "You may not do this any more.",
    404: "It is no longer there.",
    413: "It is larger than this site takes.",
    429: "That was too often. Wait a moment, then try again.",
  };
  const LOGGED_OUT = "You are logged out.";
  const UNREACHABLE = "The server can't be reached.";

  const KINDS = { 403: "forbidden", 404: "missing", 413: "refused", 429: "refused" };

  // `kind` is "login", "unreachable", "failed" or one of these; the message is a sentence for the page.
  class Refusal extends Error {
    constructor(kind, message) {
      super(message);
      this.kind = kind;
    }
  }

  const whyOf = (status) => WHY[status] || `The server answered ${status}.`;
  let login = "";

  // A response that is what was asked for, else a `Refusal`. `whole` asks for a page and not for a part of one; `send` is
  // the body of what is posted.
  async function ask(url, { signal, whole = false, send } = {}) {
    const headers = whole ? { Accept: "text/html" } : { "HX-Request": "true", "HX-Current-URL": location.href };
    let response;
    try {
      response = await fetch(url, { headers, signal, ...(send && { method: "POST", body: send }) });
    } catch (error) {
      if (signal && signal.aborted) throw error;
      throw new Refusal("unreachable", UNREACHABLE);
    }
    const address = response.headers.get("HX-Redirect") || (response.redirected && response.url);
    if (address) {
      loggedOut(address);
      throw new Refusal("login", LOGGED_OUT);
    }
    if (response.ok) return response;
    throw new Refusal(KINDS[response.status] || "failed", whyOf(response.status));
  }

  async function askForPage(url, options) {
    return new DOMParser().parseFromString(await (await ask(url, options)).text(), "text/html");
  }

  function loggedOut(address) {
    login = address;
    for (const link of document.querySelectorAll("[data-login]")) link.href = address;
  }

  // A login gives the browser new tokens against forged requests; those on the page are of the session before.
  async function renew() {
    if (!login) return;
    let page;
    try {
      page = await askForPage(location.pathname + location.search, { whole: true });
    } catch {
      return;
    }
    const fresh = page.querySelector(".pg[hx-headers]");
    const token = page.querySelector("[name=csrfmiddlewaretoken]");
    if (!fresh || !token) return;
    login = "";
    document.querySelector(".pg[hx-headers]").setAttribute("hx-headers", fresh.getAttribute("hx-headers"));
    for (const field of document.querySelectorAll("[name=csrfmiddlewaretoken]")) field.value = token.value;
    document.dispatchEvent(new CustomEvent("pg:login"));
  }

  window.addEventListener("focus", renew);
  document.addEventListener("visibilitychange", () => document.hidden || renew());

  window.playgroundSession = { Refusal, ask, askForPage, loggedOut, renew, whyOf, LOGGED_OUT, UNREACHABLE };
})();
