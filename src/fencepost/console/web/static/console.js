// What HTML cannot do alone: looking again from time to time without losing the reader's place, and
// keys. Pages are complete without it.
"use strict";
(() => {
  const RETRY_MAX_S = 30;
  const ANSWER_MAX_MS = 40000;
  const KEYS = [
    ["/", "to the page's first field"],
    ["p", "pause, or go on"],
    ["r", "look now"],
    ["?", "this list"],
  ];
  const pageElement = () => document.getElementById("page");
  const button = document.querySelector("[data-pause]");
  let paused = false;
  let timer = 0;
  let failures = 0;
  let silentSince = null;
  let shownAt = performance.now();

  // Make `old` what `fresh` is, by changing as little as possible: what has the focus, is open, is
  // scrolled or has been typed stays. Children are matched by id or data-key, then by their place.
  const patch = (old, fresh) => {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(fresh);
    } else if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
    } else if (!old.hasAttribute("data-keep")) {
      patchAttributes(old, fresh);
      patchChildren(old, [...fresh.childNodes]);
    }
  };
  const patchAttributes = (old, fresh) => {
    for (const { name } of [...old.attributes]) {
      const isReaders = name === "open" && old.nodeName === "DETAILS";
      if (!fresh.hasAttribute(name) && !isReaders) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };
  const keyOf = (node) =>
    node.nodeType === Node.ELEMENT_NODE ? node.id || node.getAttribute("data-key") : null;
  const patchChildren = (parent, wanted) => {
    const keyed = new Map();
    for (const node of parent.childNodes) {
      const key = keyOf(node);
      if (key && !keyed.has(key)) keyed.set(key, node);
    }
    let place = parent.firstChild;
    for (const fresh of wanted) {
      const key = keyOf(fresh);
      const same = key ? keyed.get(key) : place && !keyOf(place) ? place : null;
      if (!same || same.nodeName !== fresh.nodeName) {
        parent.insertBefore(fresh, place);
        continue;
      }
      if (key) keyed.delete(key);
      if (same === place) place = place.nextSibling;
      else parent.insertBefore(same, place);
      patch(same, fresh);
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  };

  const show = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const page = fresh.getElementById("page");
    if (!page) return location.reload(); // the token is asked for again
    const focused = document.activeElement;
    document.title = fresh.title;
    patch(pageElement(), document.adoptNode(page));
    if (focused !== document.activeElement && focused?.isConnected) {
      focused.focus({ preventScroll: true });
    }
    shownAt = performance.now();
  };
  const say = (text) => {
    const silent = document.getElementById("silent");
    if (silent && silent.textContent !== text) silent.textContent = text;
  };
  const isSelecting = () => {
    const selection = getSelection();
    return !selection.isCollapsed && pageElement()?.contains(selection.anchorNode);
  };

  const look = async () => {
    try {
      const answer = await fetch(location.href, {
        cache: "no-store",
        headers: { Accept: "text/html" },
        signal: AbortSignal.timeout(ANSWER_MAX_MS),
      });
      const text = await answer.text();
      if (!(answer.headers.get("content-type") || "").startsWith("text/html")) throw new Error(text);
      failures = 0;
      silentSince = null;
      say("");
      show(text);
    } catch {
      failures += 1;
      silentSince ??= new Date().toLocaleTimeString();
      say(`The console itself has not answered since ${silentSince}; it is asked again.`);
    }
  };
  const plan = () => {
    clearTimeout(timer);
    const seconds = Number(pageElement()?.dataset.refreshS || 0);
    if (!seconds && !failures) return;
    const pause = failures ? Math.min(2 ** failures, RETRY_MAX_S) : seconds;
    timer = setTimeout(async () => {
      if (!paused && !document.hidden && !isSelecting()) await look();
      plan();
    }, 1000 * pause);
  };
  const pause = (wanted) => {
    paused = wanted;
    button?.setAttribute("aria-pressed", String(paused));
    say(paused ? "Paused: what is shown stays as it is." : "");
    if (!paused) look().then(plan);
  };
  const lookNow = () => look().then(plan);

  // The age of what is shown grows also while nothing is asked for.
  setInterval(() => {
    const age = document.querySelector(".age[data-age-ms]");
    const seconds = (Number(age?.dataset.ageMs) + performance.now() - shownAt) / 1000;
    if (age && seconds >= 10) {
      age.textContent = seconds < 60
        ? `${Math.floor(seconds)} s`
        : `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
    }
  }, 1000);

  const help = () => {
    const dialog = document.createElement("dialog");
    dialog.setAttribute("aria-label", "Keys");
    const list = dialog.appendChild(document.createElement("dl"));
    for (const [key, what] of KEYS) {
      const term = list.appendChild(document.createElement("dt"));
      term.appendChild(document.createElement("kbd")).textContent = key;
      list.appendChild(document.createElement("dd")).textContent = what;
    }
    const close = dialog.appendChild(document.createElement("button"));
    close.textContent = "Close";
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    document.body.appendChild(dialog).showModal();
  };
  const actions = {
    "/": () => document.querySelector("form.fields :is(input, select)")?.focus(),
    p: () => button && !button.hidden && pause(!paused),
    r: lookNow,
    "?": help,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, select, textarea")) return;
    const action = Object.hasOwn(actions, event.key) && actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  if (button && pageElement()?.dataset.refreshS) {
    button.hidden = false;
    button.addEventListener("click", () => pause(!paused));
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !paused && pageElement()?.dataset.refreshS) lookNow();
  });
  plan();
})();

// Live tails: events become rows, of text alone. Rows beyond what is kept go.
(() => {
  const follow = (box) => {
    const [start, stop] = ["[data-start]", "[data-stop]"].map((one) => box.querySelector(one));
    const status = box.querySelector("[role=status]");
    const body = box.querySelector("tbody");
    const most = Number(box.dataset.rowsMax);
    let source = null, last = "", shown = 0, missed = 0, skipped = 0, problem = "", said = 0;
    const say = (state) => {
      const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
      const parts = [state, count(shown, "record")];
      if (missed) parts.push(`${count(missed, "record")} not shown`);
      if (skipped) parts.push(`${count(skipped, "offset")} skipped`);
      if (problem) parts.push(problem);
      status.textContent = parts.join("; ");
      said = Date.now();
    };
    const end = (state) => {
      source?.close();
      source = null;
      start.disabled = false;
      stop.disabled = true;
      say(state);
    };
    const row = (one) => {
      const line = document.createElement("tr");
      one.cells.forEach((text, place) => {
        const cell = document.createElement(place ? "td" : "th");
        if (!place) cell.scope = "row";
        if (place === 1) {
          const link = document.createElement("a");
          link.href = one.link;
          link.textContent = text;
          cell.append(link);
        } else cell.textContent = text;
        line.append(cell);
      });
      return line;
    };
    start.addEventListener("click", () => {
      const from = new URL(box.dataset.tail, location.href);
      if (last) from.searchParams.set("at", last);
      source = new EventSource(from);
      start.disabled = true;
      stop.disabled = false;
      say("Following");
      source.addEventListener("records", (event) => {
        const found = JSON.parse(event.data);
        last = event.lastEventId;
        shown += found.rows.length;
        missed += found.not_shown;
        skipped += found.skipped;
        problem = found.problem || "";
        body.prepend(...found.rows.map(row).reverse());
        while (body.rows.length > most) body.deleteRow(-1);
        if (Date.now() - said > 1000 || shown < 50) say("Following");
      });
      source.addEventListener("error", () => {
        if (source?.readyState === EventSource.CLOSED) {
          end("Refused: the console does not answer, or as many tails are open as may be");
        } else say("Waiting for the console");
      });
    });
    stop.addEventListener("click", () => end("Stopped"));
  };
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[data-tail]").forEach(follow);
  });
})();

// Matrices by keyboard.
(() => {
  // The arrow keys move between the cells of a matrix; one of them is in the order of Tab.
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  document.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    const cell = event.target.closest("table.matrix td");
    if (!step || !cell || event.altKey || event.ctrlKey || event.metaKey) return;
    const row = cell.parentElement;
    const rows = [...row.parentElement.rows];
    const to = rows[rows.indexOf(row) + step[0]]?.cells[cell.cellIndex + step[1]];
    if (!to || to.tagName !== "TD") return;
    cell.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
    event.preventDefault();
  });
})();
