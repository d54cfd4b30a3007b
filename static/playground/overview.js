// The strip above a long step list: where the reader is in the run, and a way to jump by mouse or keys.
(function () {
  "use strict";

  const run = window.playgroundRun;
  if (!run) return;

  const WAIT_MS = 150;
  const strip = () => document.querySelector("[data-overview]");
  let shown = "time";
  let timer = 0;

  function figures() {
    const { last, each } = strip().parentElement.dataset;
    return { last: Number(last), each: Number(each) };
  }

  // The rounds of the chosen step and of the part of the list that is on the page.
  function show() {
    if (!strip()) return;
    for (const button of document.querySelectorAll("[data-show^='#overview-']")) {
      const on = button.dataset.show === `#overview-${shown}`;
      button.setAttribute("aria-pressed", on);
      document.querySelector(button.dataset.show).toggleAttribute("hidden", !on);
    }
    const rounds = [...document.querySelectorAll("#step-tree > .pg-round")].map((round) => Number(round.id.slice(6)));
    const { each } = figures();
    if (rounds.length) {
      const from = (Math.max(rounds[0], 1) - 1) / each;
      const width = Math.max(rounds.at(-1) / each - from, 1);
      for (const here of strip().querySelectorAll("[data-here]")) {
        here.setAttribute("x", from.toFixed(2));
        here.setAttribute("width", width.toFixed(2));
      }
    }
    const row = document.querySelector('#step-tree .pg-step[aria-selected="true"]');
    const round = row && row.closest(".pg-round");
    if (round) name(Math.max(Number(round.id.slice(6)), 1));
  }

  function name(round) {
    strip().setAttribute("aria-valuenow", round);
    strip().setAttribute("aria-valuetext", `Round ${round} of ${figures().last}`);
  }

  async function jump(round) {
    if (!(await run.fetchWindow({ round }))) return;
    run.select(document.getElementById("step-tree").dataset.at);
  }

  function jumpSoon(round) {
    run.chosen();
    name(round);
    clearTimeout(timer);
    timer = setTimeout(() => jump(round), WAIT_MS);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-show^='#overview-']");
    if (button) {
      shown = button.dataset.show.slice("#overview-".length);
      show();
    }
    const here = event.target.closest("[data-overview]");
    if (!here) return;
    const area = here.getBoundingClientRect();
    const { last } = figures();
    const part = (event.clientX - area.left) / area.width;
    jumpSoon(Math.min(Math.max(Math.ceil(part * last), 1), last));
  });

  document.addEventListener("keydown", (event) => {
    if (!event.target.closest("[data-overview]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const { last } = figures();
    const now = Number(strip().getAttribute("aria-valuenow"));
    const page = Math.max(Math.round(last / 10), 1);
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: page, PageDown: -page }[event.key];
    const to = event.key === "Home" ? 1 : event.key === "End" ? last : by && Math.min(Math.max(now + by, 1), last);
    if (!to) return;
    event.preventDefault();
    jumpSoon(to);
  });

  document.addEventListener("pg:steps", show);
  document.addEventListener("pg:step", show);
  show();
})();
