// The form of a new run: checklists in order, tool groups, and a preview that follows what is typed.
// What is submitted is the form itself: the order of rows in the page is the order of the request.
(function () {
  "use strict";

  const form = document.querySelector("[data-new-run]");
  if (!form) return;
  const panel = document.querySelector("[data-preview]");
  const view = document.getElementById("preview_view");
  const failed = panel.querySelector("[data-preview-failed]");
  const { LOGGED_OUT, UNREACHABLE, whyOf } = window.playgroundSession;
  const unfolded = new Set();
  let scrollTop = 0;

  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const number = (value) => value.toLocaleString("en-US");
  const serialized = () => new URLSearchParams(new FormData(form)).toString();
  const question = () => `${view.value} ${serialized()}`;
  let seen = "";
  let asked = "";

  function isTouched(field) {
    if (field.matches("select")) return field.selectedIndex !== Math.max([...field.options].findIndex((option) => option.defaultSelected), 0);
    if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
    return field.value !== field.defaultValue;
  }

  // --- What was changed --------------------------------------------------------------------------------------

  function changed() {
    count();
    const now = serialized();
    if (now === seen) return;
    seen = now;
    panel.setAttribute("aria-busy", "true");
    htmx.trigger(panel, "edited");
  }

  function count() {
    for (const list of all("[data-checklist]", form)) countList(list);
    for (const group of all("[data-group]", form)) countGroup(group);
    const tools = all("[name=tools]:enabled", form);
    const hint = form.querySelector("[data-tools] [data-count]");
    if (hint) hint.textContent = `${tools.filter((tool) => tool.checked).length} of ${tools.length} selected`;
    const advanced = form.querySelector("[data-advanced]");
    const given = all("input:enabled, select:enabled", advanced).filter((field) => field.value).length;
    advanced.querySelector("[data-count]").textContent =
      given === 0 ? "" : given === 1 ? "1 value differs from the configuration" : `${given} values differ from the configuration`;
  }

  // --- Checklists --------------------------------------------------------------------------------------------

  function countList(list) {
    const rows = all("[data-option]", list);
    let place = 0;
    for (const row of rows) {
      const on = row.querySelector("input").checked;
      if (on) place += 1;
      row.classList.toggle("is-on", on);
      row.querySelector(".pg-opt__no").textContent = on ? place : "";
    }
    const selected = rows.filter((row) => row.classList.contains("is-on"));
    selected.forEach((row, index) => {
      row.querySelector("[data-move=up]").setAttribute("aria-disabled", index === 0);
      row.querySelector("[data-move=down]").setAttribute("aria-disabled", index === selected.length - 1);
    });
    const hint = list.querySelector("[data-count]");
    if (rows.length) hint.textContent = `${place} of ${rows.length} selected${place > 1 ? ", " + hint.dataset.inOrder : ""}`;
    filter(list);
  }

  function filter(list) {
    const search = list.querySelector("[data-search]");
    if (!search) return;
    const words = search.value.trim().toLowerCase().split(/\s+/);
    const only = list.querySelector("[data-only-selected]").getAttribute("aria-pressed") === "true";
    let shown = 0;
    for (const row of all("[data-option]", list)) {
      const text = `${row.dataset.option} ${row.querySelector("label").textContent}`.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (only && !row.classList.contains("is-on"));
      if (!row.hidden) shown += 1;
    }
    list.querySelector("[data-none]").hidden = shown > 0;
  }

  // A row that is ticked joins the end of the selected ones; one that isn't any more goes behind them.
  function place(row) {
    const selected = all("[data-option].is-on", row.parentNode).filter((other) => other !== row);
    const after = selected.at(-1);
    const focused = document.activeElement;
    if (after) after.after(row);
    else row.parentNode.prepend(row);
    if (row.contains(focused)) focused.focus({ preventScroll: true });
  }

  // The neighbor is moved, not the row itself: so the button that was pressed keeps the focus.
  function move(button) {
    const row = button.closest("[data-option]");
    const up = button.dataset.move === "up";
    const neighbor = up ? row.previousElementSibling : row.nextElementSibling;
    if (!neighbor || !neighbor.classList.contains("is-on")) return;
    if (up) row.after(neighbor);
    else row.before(neighbor);
    row.scrollIntoView({ block: "nearest" });
    changed();
  }

  // --- Tool groups -------------------------------------------------------------------------------------------

  function countGroup(group) {
    const tools = all("[name=tools]:enabled", group);
    const checked = tools.filter((tool) => tool.checked);
    const box = group.querySelector("[data-all]");
    box.checked = tools.length > 0 && checked.length === tools.length;
    box.indeterminate = checked.length > 0 && checked.length < tools.length;
    const sum = checked.reduce((total, tool) => total + Number(tool.dataset.tokens), 0);
    group.querySelector("[data-sum]").textContent = sum ? number(sum) : "";
  }

  // --- The preview -------------------------------------------------------------------------------------------

  // What belongs to the preview and stands elsewhere: figures beside the fields, and which skills were left out.
  function spread() {
    const preview = document.getElementById("preview");
    for (const place of all("[data-figure]", form)) {
      const name = place.dataset.figure;
      const figure = preview.getAttribute(`data-figure-${name}`);
      const words = figure && figure !== "0" ? `${figure} tokens` : "";
      place.textContent = words && name === "tools" ? `, ${words}` : words && name === "override" ? `${words}.` : words;
    }
    const dropped = new Set((preview.dataset.leftOut || "").split("|"));
    for (const row of all("[data-option]", form)) {
      const box = row.querySelector("input");
      row.querySelector("[data-left-out]").hidden = !(box.checked && dropped.has(`${box.name} ${box.value}`));
    }
  }

  function unfold(button, open) {
    button.previousElementSibling.classList.toggle("pg-clip", !open);
    button.setAttribute("aria-expanded", open);
    if (button.dataset.more === undefined) button.dataset.more = button.textContent;
    button.textContent = open ? button.dataset.less : button.dataset.more;
  }

  function showFailure(why, login = false) {
    panel.removeAttribute("aria-busy");
    panel.classList.add("is-stale");
    failed.querySelector("[data-why]").textContent = why;
    failed.querySelector("[data-login]").hidden = !login;
    failed.hidden = false;
  }

  panel.addEventListener("htmx:beforeRequest", (event) => {
    // The page is about to change.
    if (form.dataset.sent) event.preventDefault();
    asked = question();
    panel.setAttribute("aria-busy", "true");
  });

  panel.addEventListener("htmx:beforeOnLoad", (event) => {
    if (event.detail.xhr.getResponseHeader("HX-Redirect")) showFailure(LOGGED_OUT, true);
  });
  document.addEventListener("pg:login", () => failed.hidden || htmx.trigger(panel, "refresh"));

  panel.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status >= 400) return;
    // Something was changed since: the next answer is on its way.
    if (asked !== question()) event.detail.shouldSwap = false;
    const scroller = panel.querySelector("[data-scroll]");
    if (scroller) scrollTop = scroller.scrollTop;
  });

  // The fields of variables come with the preview; they are left alone, with what is being typed, until others are asked for.
  document.body.addEventListener("htmx:oobBeforeSwap", (event) => {
    const [old, fresh] = [event.detail.target, event.detail.fragment.querySelector("#run_variables")];
    if (old.id === "run_variables" && fresh && old.dataset.variables === fresh.dataset.variables) event.detail.shouldSwap = false;
  });

  document.body.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target.id === "run_variables") seen = serialized();
  });

  panel.addEventListener("htmx:afterSwap", () => {
    failed.hidden = true;
    panel.classList.remove("is-stale");
    panel.removeAttribute("aria-busy");
    for (const button of all("[data-unfold]", panel)) if (unfolded.has(button.dataset.unfold)) unfold(button, true);
    for (const details of all("details[data-key]", panel)) details.open = unfolded.has(details.dataset.key);
    const scroller = panel.querySelector("[data-scroll]");
    if (scroller) scroller.scrollTop = scrollTop;
    spread();
  });

  panel.addEventListener("htmx:responseError", (event) => {
    showFailure(whyOf(event.detail.xhr.status));
  });

  panel.addEventListener("htmx:sendError", () => showFailure(UNREACHABLE));
  panel.addEventListener("htmx:timeout", () => showFailure("The server didn't answer in time."));

  panel.addEventListener(
    "toggle",
    (event) => {
      const key = event.target.dataset.key;
      if (key) event.target.open ? unfolded.add(key) : unfolded.delete(key);
    },
    true,
  );

  panel.addEventListener("click", (event) => {
    const fold = event.target.closest("[data-unfold]");
    if (fold) {
      const open = fold.getAttribute("aria-expanded") !== "true";
      open ? unfolded.add(fold.dataset.unfold) : unfolded.delete(fold.dataset.unfold);
      unfold(fold, open);
    }
    const chosen = event.target.closest("[data-view]");
    if (chosen) {
      view.value = chosen.dataset.view;
      // The exact body is a form of the JSON view.
      const pressed = view.value === "exact" ? "json" : view.value;
      for (const button of all(".pg-panel__head [data-view]", panel)) button.setAttribute("aria-pressed", button.dataset.view === pressed);
      scrollTop = 0;
      const scroller = panel.querySelector("[data-scroll]");
      if (scroller) scroller.scrollTop = 0;
      htmx.trigger(panel, "refresh");
    }
    if (event.target.closest("[data-refresh]")) htmx.trigger(panel, "refresh");
    const go = event.target.closest("[data-go]");
    if (go) {
      const field = document.querySelector(go.getAttribute("href"));
      if (field) {
        event.preventDefault();
        const details = field.closest("details");
        if (details) details.open = true;
        field.focus();
      }
    }
  });

  // --- The form ----------------------------------------------------------------------------------------------

  form.addEventListener("input", (event) => {
    if (event.target.matches("[data-search]")) filter(event.target.closest("[data-checklist]"));
    else if (event.target.matches("textarea, [type=text]")) changed();
  });

  form.addEventListener("change", (event) => {
    if (event.target.matches("[data-search]")) return;
    const option = event.target.closest("[data-option]");
    if (option) {
      place(option);
    } else if (event.target.matches("[data-all]")) {
      for (const tool of all("[name=tools]:enabled", event.target.closest("[data-group]"))) tool.checked = event.target.checked;
    }
    changed();
  });

  form.addEventListener("click", (event) => {
    const button = event.target.closest("[data-move]");
    if (button) move(button);
    const preset = event.target.closest("[data-preset]");
    if (preset) {
      const wanted = new Set(preset.dataset.preset.split(" "));
      for (const tool of all("[name=tools]:enabled", form)) tool.checked = wanted.has(tool.value);
      changed();
    }
    const only = event.target.closest("[data-only-selected]");
    if (only) {
      only.setAttribute("aria-pressed", only.getAttribute("aria-pressed") !== "true");
      filter(only.closest("[data-checklist]"));
    }
  });

  // Enter in a field must not start a run that costs money.
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input") && !event.ctrlKey && !event.metaKey) event.preventDefault();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat && form.isConnected) {
      event.preventDefault();
      form.requestSubmit(form.querySelector("[data-run]"));
    }
  });

  window.addEventListener("pageshow", () => {
    if (!form.isConnected) return;
    count();
    // A page that the browser brought back has the fields as they were left, and the preview of before. On a new one
    // somebody may have typed before its scripts were there.
    if (all("input, textarea, select", form).some(isTouched)) seen = "";
    changed();
  });

  form.addEventListener("htmx:afterSwap", () => {
    count();
    spread();
    changed();
  });

  const errors = form.querySelector("[data-form-errors]");
  if (errors) {
    const first = form.querySelector("[aria-invalid]");
    if (first && first.closest("details")) first.closest("details").open = true;
    (first || errors).focus();
  }
  seen = serialized();
  count();
  spread();
})();
