// On a narrow screen a table is a list: a block for each row, in which each cell has the heading of its column
// (site.css). Without scripts a wide table scrolls.
(function () {
  "use strict";

  var COLUMNS_THAT_FIT = 2;

  function label(table) {
    var head = table.tHead && table.tHead.rows[0];
    if (!head || head.cells.length <= COLUMNS_THAT_FIT) return;
    table.classList.add("stacks");
    table.querySelectorAll("tbody > tr").forEach(function (row) {
      Array.from(row.cells).forEach(function (cell) {
        if (cell.colSpan > 1) return;
        cell.dataset.label = head.cells[cell.cellIndex].textContent.trim();
        if (!cell.textContent.trim() && !cell.children.length) cell.classList.add("empty");
      });
    });
  }

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll("article table").forEach(label);
  });
})();
