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
  setTimeout(next, 5000);
})();
