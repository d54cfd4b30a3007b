// How a live page hears of its run: over a stream or, where none gets through, by asking once a second. Where neither
// helps, the page says so, counts the seconds, and tries again until somebody has to do something first.
(function () {
  "use strict";

  const run = window.playgroundRun;
  const session = window.playgroundSession;
  if (!run) return;

  // A stream that only ended is open again at once. The second time, asking tells why: a stream can't.
  const BROKEN_STREAMS = 2;
  const REOPEN_MS = 50;
  const ASK_MS = 1000;
  // So often in a row, then a stream is tried again.
  const ASKED = 30;
  // The server says something every ten seconds, if only that it is still there.
  const SILENT_MS = 25_000;
  const WAITS_MS = [1000, 2000, 4000, 8000, 15_000];
  // What no waiting helps against.
  const FINAL = {
    login: ["You are logged out.", "Log in again in another tab, then come back: nothing on this page is lost."],
    forbidden: ["You may no longer see this run.", "What is on the page stays until you leave it."],
    missing: ["The run is gone, or you may no longer see it.", "What is on the page stays until you leave it."],
  };

  function spell(ms) {
    const seconds = Math.max(Math.round(ms / 1000), 0);
    return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  }

  // The note above the figures. `again` is what its button, a login and the clock try.
  function lostNote() {
    const note = document.getElementById("run-lost");
    const put = (name, text) => (note.querySelector(`[data-lost-${name}]`).textContent = text);
    let state = null;

    function tick() {
      if (!state) return;
      const now = performance.now();
      put("what", state.what || `Live updates stopped ${spell(now - state.since)} ago.`);
      if (!state.at) return;
      const left = state.at - now;
      put("next", left > 500 ? `Trying again in ${spell(left)}.` : "Trying again…");
    }

    function hide() {
      if (state) clearTimeout(state.timer);
      state = null;
      note.hidden = true;
    }

    function show({ error, again, since, what, wait }) {
      const known = FINAL[error.kind];
      const isNew = !state || state.kind !== error.kind;
      since = state ? state.since : since;
      if (state) clearTimeout(state.timer);
      state = { kind: error.kind, again, since, what };
      if (!known) Object.assign(state, { at: performance.now() + wait, timer: setTimeout(again, wait) });
      put("why", known ? known[0] : what ? "" : "The run goes on in the background.");
      put("next", known ? known[1] : "");
      note.querySelector("[data-login]").hidden = error.kind !== "login";
      note.hidden = false;
      tick();
      if (isNew) run.say(`${what || "Live updates stopped."} ${known ? known[0] : error.message}`);
    }

    const again = () => state && state.again();
    note.querySelector("[data-lost-again]").addEventListener("click", again);
    document.addEventListener("pg:login", again);
    setInterval(tick, 1000);
    return { show, hide };
  }

  // `place` is where the news goes on, `names` are the events, `take(name, data, id)` gets each.
  window.playgroundConnection = function ({ live, place, names, take }) {
    const note = lostNote();
    let source = null;
    let timer = 0;
    let broken = 0;
    let asked = 0;
    let refused = 0;
    let over = false;
    let heardAt = performance.now();

    function open() {
      close();
      if (over || document.hidden) return;
      if (!window.EventSource || broken >= BROKEN_STREAMS) ask();
      else listen();
    }

    function close() {
      if (source) source.close();
      source = null;
      clearTimeout(timer);
    }

    function heard() {
      heardAt = performance.now();
      refused = 0;
      note.hide();
    }

    function listen() {
      source = new EventSource(`${live.dataset.events}?${new URLSearchParams(place)}`);
      // From here on everything since `after` is wanted, whatever the revision.
      place.revision = "";
      const hear = () => {
        broken = 0;
        heard();
      };
      for (const name of [...names, "beat"]) {
        source.addEventListener(name, (event) => {
          hear();
          if (name !== "beat") take(name, JSON.parse(event.data), Number(event.lastEventId) || 0);
        });
      }
      source.addEventListener("open", hear);
      source.addEventListener("error", () => {
        close();
        broken += 1;
        if (!over && !document.hidden) timer = setTimeout(open, REOPEN_MS);
      });
    }

    async function ask() {
      try {
        const response = await session.ask(`${live.dataset.updates}?${new URLSearchParams(place)}`);
        const news = await response.json();
        if (over || document.hidden) return;
        heard();
        for (const { event, id, data } of news.events) take(event, data, id || 0);
        place.revision = news.revision;
        asked += 1;
        if (asked % ASKED === 0) broken = 0;
        if (!over) timer = setTimeout(open, ASK_MS);
      } catch (error) {
        if (!over && !document.hidden) lost(error);
      }
    }

    // Says what is wrong and tries `again`: what it was, unless somebody else wants to try something else.
    function lost(error, { again = open, since = performance.now(), what = "" } = {}) {
      close();
      note.show({ error, again, since, what, wait: WAITS_MS[Math.min(refused, WAITS_MS.length - 1)] });
      refused += 1;
    }

    function cutOff(since) {
      broken = BROKEN_STREAMS;
      lost(new session.Refusal("unreachable", session.UNREACHABLE), { since });
    }

    setInterval(() => {
      if (source && performance.now() - heardAt > SILENT_MS) cutOff(heardAt);
    }, 1000);
    window.addEventListener("offline", () => over || document.hidden || cutOff(performance.now()));
    window.addEventListener("online", () => over || open());
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return close();
      broken = refused = 0;
      heardAt = performance.now();
      if (!over) open();
    });
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", (event) => event.persisted && open());

    function stop() {
      over = true;
      close();
    }

    return { open, stop, lost, found: note.hide };
  };
})();
