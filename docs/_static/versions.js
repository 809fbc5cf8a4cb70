// Buttons above every table of fields: one version alone, or all. Without scripts all is shown.
(function () {
  "use strict";

  function show(message, version) {
    message.querySelectorAll("tbody").forEach(function (row) {
      var first = row.dataset.first;
      row.hidden =
        version !== null && !(first && Number(first) <= version && version <= Number(row.dataset.last));
    });
    message.querySelectorAll(".picker button").forEach(function (button) {
      button.setAttribute("aria-pressed", String(button.value === (version === null ? "" : String(version))));
    });
  }

  function button(message, label, version) {
    var made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    made.value = version === null ? "" : String(version);
    made.addEventListener("click", function () {
      show(message, version);
    });
    return made;
  }

  function addPicker(message) {
    var first = Number(message.dataset.first);
    var last = Number(message.dataset.last);
    if (first === last) return;
    var picker = document.createElement("div");
    picker.className = "picker";
    picker.setAttribute("role", "group");
    picker.setAttribute("aria-label", "Versions of " + message.dataset.name);
    picker.append("Version ");
    picker.append(button(message, "all", null));
    for (var version = first; version <= last; version++) {
      picker.append(button(message, String(version), version));
    }
    message.prepend(picker);
    show(message, null);
  }

  // A link to a field must show it, whatever version was chosen.
  function revealTarget() {
    var row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    var message = row && row.closest(".message");
    if (message && row.hidden) {
      show(message, null);
      row.scrollIntoView();
    }
  }

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll(".message").forEach(addPicker);
    window.addEventListener("hashchange", revealTarget);
  });
})();
