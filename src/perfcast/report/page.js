document.querySelectorAll("th button").forEach(button => button.addEventListener("click", () => {
  const th = button.parentNode, body = th.closest("table").tBodies[0];
  const index = th.cellIndex, numeric = th.classList.contains("number");
  const up = numeric ? th.ariaSort === "descending" : th.ariaSort !== "ascending";
  const key = row => row.cells[index].dataset.value;
  const text = row => row.cells[index].textContent;
  const order = (a, b) => numeric ? key(a) - key(b) : text(a).localeCompare(text(b));
  for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...[...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)));
}));
