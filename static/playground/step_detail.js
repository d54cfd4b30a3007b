// The detail of the chosen step: loaded when a step or a tab is opened, and what is said where it doesn't come.
(function () {
  "use strict";

  const run = window.playgroundRun;
  if (!run) return;

  const { byId, inspector, state, rowOf, mark, reveal } = run;
  const { askForPage } = window.playgroundSession;
  let loading = new AbortController();

  async function load(tab) {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    const url = inspector.dataset.stepUrl.replace(/\/0\/$/, `/${state.step}/`);
    byId("step-detail").setAttribute("aria-busy", "true");
    try {
      const page = await askForPage(tab ? `${url}?tab=${encodeURIComponent(tab)}` : url, { signal });
      if (!signal.aborted) arrived(document.adoptNode(page.getElementById("step-detail")));
    } catch (error) {
      if (!signal.aborted) failed(error);
    }
  }

  // The message stands where the content would: in the panel where the step is open and only its tab is missing.
  function failed({ kind, message = "The server didn't answer as expected." }) {
    const detail = byId("step-detail");
    const panel = Number(detail.dataset.step) === state.step && byId("step-panel");
    const place = panel || detail;
    const hadFocus = place.contains(document.activeElement);
    place.replaceChildren(byId("step-failed").content.cloneNode(true));
    place.querySelector("[data-failed-what]").textContent = `This ${panel ? "tab" : "step"} could not be loaded`;
    place.querySelector("[data-failed-why]").textContent = message;
    place.querySelector("[data-login]").hidden = kind !== "login";
    detail.removeAttribute("aria-busy");
    if (!panel) delete detail.dataset.step;
    if (hadFocus) place.querySelector("[data-retry]").focus({ preventScroll: true });
  }

  // The step that is open, as the server has it now; the tab that is open stays.
  function reload() {
    load(byId("step-detail").dataset.tab || state.tab);
  }

  function arrived(detail) {
    const before = byId("step-detail");
    const hadTab = before.contains(document.activeElement) && document.activeElement.matches('[role="tab"], [data-retry]');
    before.replaceWith(detail);
    htmx.process(detail);
    state.step = Number(detail.dataset.step);
    const row = rowOf(state.step);
    if (row && row.getAttribute("aria-selected") !== "true") {
      mark(row);
      reveal(row, false);
    }
    inspector.querySelector("[data-current-step]").textContent =
      detail.querySelector("[data-step-title]").textContent;
    history.replaceState(history.state, "", `#step-${state.step}/${detail.dataset.tab}`);
    if (state.refocusTab || hadTab) detail.querySelector('[role="tab"][aria-selected="true"]').focus({ preventScroll: true });
    state.refocusTab = false;
    const list = detail.querySelector('[role="tablist"]');
    const tab = list.querySelector('[aria-selected="true"]');
    list.scrollLeft = Math.max(tab.offsetLeft + tab.offsetWidth + 24 - list.clientWidth, 0);
    document.dispatchEvent(new CustomEvent("pg:detail"));
  }

  // --- tabs --------------------------------------------------------------------------------------------------------

  const tabs = () => [...byId("step-detail").querySelectorAll('[role="tab"]')];

  function openTab(tab, refocus) {
    for (const other of tabs()) {
      other.setAttribute("aria-selected", other === tab);
      other.tabIndex = other === tab ? 0 : -1;
    }
    state.tab = tab.dataset.tab;
    state.refocusTab = refocus;
    load(state.tab);
  }

  function moveTab(by, refocus) {
    const all = tabs();
    const at = all.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
    if (all.length) openTab(all[(at + by + all.length) % all.length], refocus);
  }

  // Who has logged in again elsewhere finds here what did not come.
  document.addEventListener("pg:login", () => byId("pg-detail").querySelector("[data-retry]") && load(state.tab));

  Object.assign(run, { load, reload, tabs, openTab, moveTab });
})();
