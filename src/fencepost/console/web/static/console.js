// What HTML cannot do alone: looking again from time to time, and not while nobody watches.
"use strict";
(() => {
  let paused = false;
  const next = () => {
    const page = document.getElementById("page");
    const seconds = Number(page?.dataset.refreshS || 0);
    if (page && seconds && !paused && !document.hidden) htmx.trigger(page, "look");
    setTimeout(next, 1000 * (seconds || 5));
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-pause]");
    if (!button) return;
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea")) return;
    if (event.key === "/") {
      document.querySelector("form.fields input")?.focus();
      event.preventDefault();
    }
  });
  setTimeout(next, 5000);
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
      const parts = [state, `${shown} records`];
      if (missed) parts.push(`${missed} records not shown`);
      if (skipped) parts.push(`${skipped} offsets skipped`);
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
