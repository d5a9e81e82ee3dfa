"use strict";
// Sorts by what is shown; the page says all it has to say without any of this.
function value(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.key !== undefined) return Number(cell.dataset.key);
  const text = cell.textContent.trim();
  return text === "–" ? null : text;
}
function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
function sort(header) {
  const table = header.closest("table");
  const down = header.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [value(row, header.cellIndex), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null); // what is missing comes last
    return down ? compare(b, a) : compare(a, b);
  });
  body.append(...rows.map(([, row]) => row));
}
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => sort(button.closest("th")));
}

const root = document.documentElement;
const theme = document.getElementById("theme");
function isDark() {
  if (root.dataset.theme) return root.dataset.theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
}
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
nameTheme();
theme.hidden = false;

async function copy(button) {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code); // a browser that refuses leaves it marked, to be copied
    button.textContent = "Marked";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}
for (const button of document.querySelectorAll(".copy")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
}

addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});
