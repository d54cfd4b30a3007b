// The search in a run: from hit to hit by keys, and the hits marked in what is open.
(function () {
  "use strict";

  const run = window.playgroundRun;
  const form = document.querySelector("[data-run-search]");
  if (!run || !form) return;

  const byId = (id) => document.getElementById(id);
  const input = byId("run-search");
  const hits = () => [...byId("run-found").querySelectorAll(".pg-hit")];
  const searched = () => byId("run-found").dataset.for || "";
  let opened = "";

  function counted() {
    const count = hits().length;
    const more = byId("run-found").querySelector("[data-go-on]") ? " so far" : "";
    return `${count} ${count === 1 ? "place" : "places"}${more}`;
  }

  function arrived() {
    for (const button of form.querySelectorAll("[data-hit]")) button.disabled = hits().length === 0;
    const note = byId("run-found").querySelector(".pg-runsearch__s");
    if (note) run.say(note.textContent);
    else if (hits().length) run.say(`Found in ${counted()}.`);
    highlight();
  }

  function move(by) {
    const all = hits();
    if (!all.length) return;
    const at = all.findIndex((hit) => hit.hasAttribute("aria-current"));
    const goOn = byId("run-found").querySelector("[data-go-on] button");
    if (by > 0 && at === all.length - 1 && goOn) return goOn.click();
    open(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length]);
  }

  function mark(hit) {
    for (const other of hits()) other.removeAttribute("aria-current");
    hit.setAttribute("aria-current", "true");
  }

  function open(hit) {
    mark(hit);
    hit.scrollIntoView({ block: "nearest" });
    const all = hits();
    run.say(`Hit ${all.indexOf(hit) + 1} of ${counted()}: ${hit.querySelector("b").textContent}.`);
    opened = "";
    if (location.hash === hit.hash) highlight(true);
    else location.hash = hit.hash;
  }

  // Marks are painted, not inserted: what a model or tool said stays as it is.
  function highlight(scroll = false) {
    if (!window.CSS || !CSS.highlights) return;
    CSS.highlights.delete("pg-found");
    const panel = byId("step-panel");
    const wanted = searched().trim().toLowerCase();
    if (!panel || wanted.length < 2) return;
    const ranges = [];
    const texts = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
    while (texts.nextNode() && ranges.length < 500) {
      const text = texts.currentNode.data.toLowerCase();
      if (text.length !== texts.currentNode.data.length) continue;
      for (let at = text.indexOf(wanted); at >= 0 && ranges.length < 500; at = text.indexOf(wanted, at + wanted.length)) {
        const range = new Range();
        range.setStart(texts.currentNode, at);
        range.setEnd(texts.currentNode, at + wanted.length);
        ranges.push(range);
      }
    }
    if (!ranges.length) return;
    CSS.highlights.set("pg-found", new Highlight(...ranges));
    if (scroll) ranges[0].startContainer.parentElement.scrollIntoView({ block: "center" });
  }

  document.addEventListener("htmx:afterSettle", () => {
    if (byId("run-found").dataset.seen === String(hits().length)) return highlight();
    byId("run-found").dataset.seen = hits().length;
    arrived();
  });

  document.addEventListener("click", (event) => {
    const by = event.target.closest("[data-hit]");
    const hit = event.target.closest(".pg-hit");
    if (by) move(Number(by.dataset.hit));
    if (hit) mark(hit);
  });

  // Enter looks; once more, it goes on to the next hit.
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && input.value === searched() && hits().length) {
      event.preventDefault();
      move(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      input.value = "";
      byId("run-found").replaceChildren();
      delete byId("run-found").dataset.for;
      arrived();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select, dialog, [contenteditable]")) return;
    if (event.key === "s") input.focus();
    else if (event.key === "n") move(1);
    else if (event.key === "N") move(-1);
    else return;
    event.preventDefault();
  });

  document.addEventListener("pg:detail", () => {
    const current = byId("run-found").querySelector("[aria-current]");
    const isNew = current && opened !== location.hash && current.hash === location.hash;
    opened = location.hash;
    highlight(Boolean(isNew));
  });
})();
