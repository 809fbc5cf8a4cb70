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
