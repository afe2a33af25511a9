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

const tip = document.getElementById("tip"), tips = JSON.parse(document.getElementById("tips").textContent);
const point = event => {
  const at = event.target.closest?.("[data-t]");
  tip.hidden = !at;
  if (!at) return;
  tip.textContent = tips[at.dataset.t];
  const box = tip.getBoundingClientRect(), left = event.clientX + 14, top = event.clientY + 16;
  tip.style.left = Math.max(4, Math.min(left, innerWidth - box.width - 4)) + "px";
  tip.style.top = (top + box.height < innerHeight ? top : event.clientY - box.height - 10) + "px";
};
for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, point);
document.addEventListener("scroll", () => { tip.hidden = true }, true);
