// A run while it is going on: new steps are appended, text is replaced, figures tick, and at its end the final page
// takes their place. Nothing here moves the focus.
(function () {
  "use strict";

  const live = document.getElementById("run-live");
  if (!live || !window.playgroundRun) return;

  const run = window.playgroundRun;
  const byId = (id) => document.getElementById(id);
  const TEXT_MS = 250;
  const FOLLOW_MS = 400;
  // What a page holds stays bounded; what it doesn't hold is told of so often.
  const MAX_ROWS = 300;
  const ELSEWHERE_MS = 10_000;

  const place = { after: Number(live.dataset.after), revision: live.dataset.revision };
  let ended = false;
  let refreshing = false;
  let refreshedAt = 0;

  // --- the news ----------------------------------------------------------------------------------------------------

  function take(name, data, id) {
    if (ended) return;
    HANDLERS[name](data);
    if (id) place.after = Math.max(place.after, id);
  }

  const HANDLERS = {
    step: applyStep,
    partial: takePartial,
    summary(data) {
      replace("run-summary", data.html);
      setElapsed(data.elapsed);
    },
    permit(data) {
      const waited = "text" in byId("run-waiting").dataset;
      replace("run-waiting", data.html);
      showWaiting();
      // Each place in between would be too much to hear.
      if (waited !== "text" in byId("run-waiting").dataset) run.say(data.message);
    },
    approvals(data) {
      window.playgroundApprovals.update(() => replace("run-approvals", data.html));
      run.say(data.message);
    },
    state(data) {
      replace("run-head", data.html);
      run.say(`${data.message}.`);
    },
    end: finish,
  };

  const connection = window.playgroundConnection({ live, place, names: Object.keys(HANDLERS), take });

  function element(html) {
    const template = document.createElement("template");
    template.innerHTML = html.trim();
    return template.content.firstElementChild;
  }

  function replace(id, html) {
    put(byId(id), element(html));
  }

  function put(old, fresh) {
    const hadFocus = old.contains(document.activeElement) && document.activeElement !== document.body;
    const focusId = hadFocus ? document.activeElement.id : "";
    old.replaceWith(fresh);
    htmx.process(fresh);
    // Who stood inside stands there again, or at the first thing to do.
    if (hadFocus) {
      const again = (focusId && byId(focusId)) || fresh.querySelector("button:not([disabled]), a[href]");
      if (again) again.focus({ preventScroll: true });
    }
  }

  function inOrder(parent, child, numberOf) {
    const next = [...parent.children].find((other) => !(numberOf(other) <= numberOf(child)));
    parent.insertBefore(child, next || null);
  }

  const numberOf = (item) => {
    if (item.id === "rounds-before") return -1;
    const found = item.id.match(/^(?:step|round)-(\d+)$/);
    return found ? Number(found[1]) : Infinity;
  };

  function applyStep(data) {
    const tree = byId("step-tree");
    count(data);
    if (run.isLong() && isElsewhere(data)) {
      if (following() && (data.running || data.line > run.state.step)) followTo(data.line);
      else if (performance.now() - refreshedAt > ELSEWHERE_MS) refreshTree();
      return;
    }
    if (!run.isLong() && data.axis !== Number(tree.dataset.axis)) setTimeout(refreshTree, 150);
    const frame = element(data.round_html);
    let round = byId(frame.id);
    if (round) round.querySelector(".pg-round__h").replaceWith(frame.querySelector(".pg-round__h"));
    else {
      round = frame;
      inOrder(tree, round, numberOf);
      if (data.round) run.say(`Round ${data.round}.`);
    }
    const row = element(data.html);
    const old = byId(row.id);
    if (old) {
      row.tabIndex = old.tabIndex;
      row.setAttribute("aria-selected", old.getAttribute("aria-selected"));
      const hadFocus = document.activeElement === old;
      old.replaceWith(row);
      if (hadFocus) row.focus({ preventScroll: true });
    } else {
      inOrder(round.querySelector('[role="group"]'), row, numberOf);
    }
    if (run.isLong()) run.drawBars(round);
    run.applyFilter();
    tick();
    if (tree.querySelectorAll(".pg-step").length > MAX_ROWS) refreshTree();
    if (run.state.step === data.line) reload();
    else if (following() && (!old || data.running)) followTo(data.line);
  }

  // Whether a line belongs to a part of a long list that isn't on the page.
  function isElsewhere(data) {
    if (byId(`step-${data.line}`)) return false;
    if (byId("rounds-after")) return true;
    const first = document.querySelector("#step-tree > .pg-round");
    return Boolean(first) && data.round < numberOf(first);
  }

  // The server counted up to the step that was the last of the list; since then, each line counts once.
  const counted = { tree: null, last: 0, failed: new Set() };

  function count(data) {
    const tree = byId("step-tree");
    if (counted.tree !== tree) Object.assign(counted, { tree, last: Number(tree.dataset.last), failed: new Set() });
    const row = element(data.html);
    const isNew = data.line > counted.last;
    if (isNew) counted.last = data.line;
    const isTool = row.classList.contains("pg-step--tool");
    const failed = row.classList.contains("pg-step--err") && !counted.failed.has(data.line);
    if (failed) counted.failed.add(data.line);
    const more = { all: isNew, err: failed, tool: isNew && isTool };
    for (const chip of document.querySelectorAll("[data-chip]")) {
      const place = chip.querySelector(".n");
      if (more[chip.dataset.chip]) place.textContent = Number(place.textContent) + 1;
    }
  }

  // --- following ---------------------------------------------------------------------------------------------------

  const follow = byId("follow");
  const following = () => follow && follow.checked;
  let followTimer = 0;
  let newest = 0;

  function followTo(line) {
    newest = line;
    if (followTimer) return;
    followTimer = setTimeout(() => {
      followTimer = 0;
      if (following() && run.state.step !== newest) run.select(newest, { byReader: false });
    }, FOLLOW_MS);
  }

  let reloadTimer = 0;
  function reload() {
    clearTimeout(reloadTimer);
    reloadTimer = setTimeout(run.reload, 50);
  }

  function stopFollowing() {
    if (follow) follow.checked = false;
  }

  document.addEventListener("pg:chosen", stopFollowing);
  if (follow) {
    follow.addEventListener("change", () => {
      if (!follow.checked) return;
      if (byId("rounds-after")) return run.seek("last", { byReader: false });
      const rows = byId("step-tree").querySelectorAll(".pg-step:not(#step-answer)");
      if (rows.length) run.select(rows[rows.length - 1].id.slice("step-".length), { byReader: false });
    });
  }
  // Scrolling up is reading on one's own. What scrolls because the page grew or shrank doesn't count.
  document.addEventListener("wheel", (event) => event.deltaY < 0 && stopFollowing(), { passive: true });
  let touchedAt = 0;
  document.addEventListener("touchstart", (event) => (touchedAt = event.touches[0].clientY), { passive: true });
  document.addEventListener("touchmove", (event) => event.touches[0].clientY > touchedAt + 10 && stopFollowing(), {
    passive: true,
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "PageUp" || (event.key === "ArrowUp" && event.target === document.body)) stopFollowing();
  });

  // --- text that is being written ----------------------------------------------------------------------------------

  const partial = { round: 0, kind: "", text: "", thinking: "", tool_call: "", tokens: 0 };
  let textTimer = 0;

  function takePartial({ round, parts, tokens }) {
    if (round !== partial.round) Object.assign(partial, { round, kind: "", text: "", thinking: "", tool_call: "" });
    partial.tokens = tokens;
    for (const [name, part] of Object.entries(parts)) {
      partial[name] = part.append ? partial[name] + part.text : part.text;
    }
    if (!textTimer) textTimer = setTimeout(showPartial, TEXT_MS);
    const kind = partial.text || partial.tool_call ? "model" : "think";
    if (kind !== partial.kind) goOnAs(round, (partial.kind = kind));
  }

  // The bar of the running call goes on in another color: waiting, then thinking, then streaming.
  function goOnAs(round, css) {
    const bar = document.querySelector(`#round-${round} .is-active:not(.pg-step--tool) .bars .pg-live-bar`);
    if (!bar) return;
    const next = bar.cloneNode();
    bar.classList.remove("pg-live-bar");
    next.setAttribute("class", `f-${css} pg-live-bar`);
    next.setAttribute("x", `${parseFloat(bar.getAttribute("x")) + parseFloat(bar.getAttribute("width"))}%`);
    bar.after(next);
  }

  // A call that waits for its permit: what is said of it, and its bar in another color.
  function showWaiting() {
    const { text, round } = byId("run-waiting").dataset;
    if (text) {
      const bar = document.querySelector(`#round-${round} .is-active:not(.pg-step--tool) .bars .f-wait.pg-live-bar`);
      if (bar) bar.setAttribute("class", "f-permit pg-live-bar");
    }
    const detail = byId("step-detail");
    const word = detail.querySelector("[data-partial-state]");
    if (word && "running" in detail.dataset && !(partial.text || partial.tool_call || partial.thinking)) {
      word.textContent = text && detail.dataset.round === round ? text : "Waiting for the model";
    }
  }

  function showPartial() {
    textTimer = 0;
    const count = document.querySelector("#run-summary [data-streamed]");
    if (count) count.textContent = `≈ ${(Number(count.dataset.reported) + partial.tokens).toLocaleString("en-US")}`;
    const detail = byId("step-detail");
    if (!("running" in detail.dataset) || Number(detail.dataset.round) !== partial.round) return;
    for (const place of detail.querySelectorAll("[data-partial]")) {
      const text = partial[place.dataset.partial];
      if (place.textContent === text) continue;
      const area = place.closest(".pg-partial") || place.parentElement;
      const atEnd = area.scrollHeight - area.scrollTop - area.clientHeight < 24;
      place.textContent = text;
      if (atEnd) area.scrollTop = area.scrollHeight;
      const box = place.closest("[data-partial-box]");
      if (box) box.hidden = text === "";
    }
    const said = detail.querySelector("[data-partial-count]");
    if (said) said.textContent = `≈ ${partial.tokens.toLocaleString("en-US")} tokens so far`;
    const word = detail.querySelector("[data-partial-state]");
    if (word) word.textContent = partial.text || partial.tool_call ? "Streaming" : partial.thinking ? "Thinking" : word.textContent;
    showWaiting();
  }

  // --- time --------------------------------------------------------------------------------------------------------

  let zero = 0;
  function setElapsed(ms) {
    zero = performance.now() - ms;
  }
  setElapsed(Number(live.dataset.elapsed));

  function spell(seconds) {
    const [whole, two] = [Math.floor(seconds), (value) => String(value).padStart(2, "0")];
    if (seconds < 60) return `${seconds.toFixed(1)}\u00a0s`;
    if (seconds < 3600) return `${Math.floor(whole / 60)}\u00a0min ${two(whole % 60)}\u00a0s`;
    return `${Math.floor(whole / 3600)}\u00a0h ${two(Math.floor(whole / 60) % 60)}\u00a0min`;
  }

  // As the columns tell the times of what has ended.
  function spellShort(seconds) {
    if (seconds < 100) return seconds.toFixed(1);
    const [whole, two] = [Math.floor(seconds), (value) => String(value).padStart(2, "0")];
    const hours = Math.floor(whole / 3600);
    const rest = `${hours ? two(Math.floor(whole / 60) % 60) : Math.floor(whole / 60)}:${two(whole % 60)}`;
    return hours ? `${hours}:${rest}` : rest;
  }

  function tick() {
    if (ended) return;
    const now = performance.now() - zero;
    for (const place of document.querySelectorAll(".pg-timer")) {
      const seconds = Math.max(now - Number(place.dataset.since), 0) / 1000;
      place.textContent = "spelled" in place.dataset ? spell(seconds) : spellShort(seconds);
    }
    const { origin, length: axis } = run.axis();
    for (const bar of byId("step-tree").querySelectorAll(".is-active .pg-live-bar, .pg-round__h .pg-live-bar")) {
      const start = (parseFloat(bar.getAttribute("x")) * axis) / 100;
      bar.setAttribute("width", `${Math.max((100 * (now - origin - start)) / axis, 0.8).toFixed(2)}%`);
    }
    showWaiting();
    const line = nowLine();
    const x = `${Math.min((100 * (now - origin)) / axis, 100).toFixed(2)}%`;
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    // The page of a long run may end before what goes on.
    line.setAttribute("visibility", byId("rounds-after") ? "hidden" : "visible");
    if (now - origin > axis && !byId("rounds-after")) refreshTree();
  }

  function nowLine() {
    const grid = document.querySelector("[data-grid]");
    let line = grid.querySelector(".pg-nowline");
    if (!line) {
      line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      line.setAttribute("class", "pg-nowline");
      line.setAttribute("y1", "0");
      line.setAttribute("y2", "100%");
      grid.append(line);
    }
    return line;
  }

  const clock = setInterval(tick, 200);

  // --- parts of the page as the server has them now ----------------------------------------------------------------

  async function refresh(ids) {
    const page = await window.playgroundSession.askForPage(`${location.pathname}?${run.place()}`, { whole: true });
    for (const id of ids) {
      const fresh = page.getElementById(id);
      const old = byId(id);
      if (fresh && old) put(old, document.adoptNode(fresh));
    }
    run.adoptTree();
  }

  // The axis has grown, so every bar stands elsewhere.
  async function refreshTree() {
    if (refreshing || ended) return;
    refreshing = true;
    refreshedAt = performance.now();
    try {
      if (!(await run.fetchWindow({ at: run.visibleStep() }, { quiet: true }))) return;
      const last = Number(byId("step-tree").dataset.last);
      // Steps that came after the list was read would be missing: they are asked for again.
      if (!ended && last < place.after) {
        place.after = last;
        connection.open();
      }
    } catch {
      // The next tick tries again.
    } finally {
      setTimeout(() => (refreshing = false), 1000);
    }
  }

  const FINAL = ["run-head", "run-note", "run-approvals", "run-waiting", "run-summary", "run-findings", "step-tree", "step-chips", "step-overview", "run-answer", "run-artifacts"];

  async function finish(data) {
    ended = true;
    connection.stop();
    clearInterval(clock);
    await settle(data.message);
  }

  async function settle(message) {
    try {
      await refresh(FINAL);
    } catch (error) {
      const what = "The run ended, but its page can't be read.";
      return connection.lost(error, { what, again: () => settle(message) });
    }
    connection.found();
    if (follow) follow.closest(".pg-steps__foot").remove();
    if ("running" in byId("step-detail").dataset) run.reload();
    run.say(message);
  }

  tick();
  connection.open();
})();
