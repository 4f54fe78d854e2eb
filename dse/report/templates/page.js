"use strict";
// Tables that may be sorted get a button in every head; without this script they stand in their own order.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const value = (row) => {
        const cell = row.cells[column];
        return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
      };
      const compare = (a, b) =>
        typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
      const rows = [...body.rows].sort((a, b) => (ascending ? 1 : -1) * compare(value(a), value(b)));
      body.append(...rows);
    });
  });
}
// Only what scrolls needs to be reached by the keyboard.
const reachable = () => {
  for (const region of document.querySelectorAll(".scroll, .plot")) {
    if (region.scrollWidth > region.clientWidth) region.tabIndex = 0;
    else region.removeAttribute("tabindex");
  }
};
reachable();
addEventListener("resize", reachable);
for (const folded of document.querySelectorAll("details")) folded.addEventListener("toggle", reachable);
// On paper nothing can be opened.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.printed:not([open])")];
  opened.forEach((folded) => (folded.open = true));
});
addEventListener("afterprint", () => opened.forEach((folded) => (folded.open = false)));
