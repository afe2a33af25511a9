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

// Figures along time: drag to look closer, double-click or Escape to see all; + - and arrows do as well.
const short = (value, unit) => {
  if (!value || !unit) return String(+value.toPrecision(6));
  const [size, prefix] = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]].find(([size]) =>
    Math.abs(value) >= size * 0.9999999) ?? [1e-9, "n"];
  return `${+(value / size).toPrecision(6)} ${prefix}${unit}`;
};
for (const plot of document.querySelectorAll("svg.zoom")) {
  const [left, top, width, height] = plot.getAttribute("viewBox").split(" ").map(Number);
  const {low, high, unit} = plot.dataset, span = high - low, svg = plot.ownerSVGElement;
  const ticks = svg.querySelector(".xticks"), grid = svg.querySelector(".xgrid"), notes = svg.querySelector(".notes");
  const whole = [...ticks.childNodes], lines = grid?.getAttribute("d"), baseline = top + height + 16;
  let from = 0, to = 1, start = null, mark = null;
  const show = (first, last) => {
    const least = 1e-6;
    [from, to] = last - first < least ? [from, to] : [Math.max(first, 0), Math.min(last, 1)];
    plot.setAttribute("viewBox", [left + from * width, top, (to - from) * width, height].join(" "));
    notes.style.visibility = from === 0 && to === 1 ? "" : "hidden";
    if (from === 0 && to === 1) { ticks.replaceChildren(...whole); grid?.setAttribute("d", lines); return }
    const lowest = +low + from * span, shown = (to - from) * span, rough = shown / Math.max(width / 150, 2);
    const power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find(one => one * power >= rough) * power;
    const texts = []; let d = "";
    for (let place = Math.ceil(lowest / step); place * step <= lowest + shown; place++) {
      const x = left + (place * step - lowest) / shown * width, text = document.createElementNS(svg.namespaceURI, "text");
      text.setAttribute("x", x); text.setAttribute("y", baseline); text.setAttribute("text-anchor", "middle");
      text.textContent = short(place * step, unit);
      texts.push(text); d += `M${x},${top}V${top + height}`;
    }
    ticks.replaceChildren(...texts); grid?.setAttribute("d", d);
  };
  const at = event => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return Math.min(Math.max((point.x - left) / width, 0), 1);
  };
  plot.addEventListener("pointerdown", event => {
    start = at(event); plot.setPointerCapture(event.pointerId);
    mark = document.createElementNS(svg.namespaceURI, "rect");
    for (const [name, value] of Object.entries({class: "mark", y: top, height, width: 0})) mark.setAttribute(name, value);
    svg.append(mark);
  });
  plot.addEventListener("pointermove", event => {
    if (start === null) return;
    const ends = [start, at(event)].sort((a, b) => a - b);
    mark.setAttribute("x", left + ends[0] * width); mark.setAttribute("width", (ends[1] - ends[0]) * width);
  });
  const finish = event => {
    if (start === null) return;
    const ends = [start, at(event)].sort((a, b) => a - b), seen = to - from, first = from;
    mark.remove(); start = null;
    if (event.type === "pointerup" && ends[1] - ends[0] > 0.01) show(first + ends[0] * seen, first + ends[1] * seen);
  };
  for (const kind of ["pointerup", "pointercancel"]) plot.addEventListener(kind, finish);
  plot.addEventListener("dblclick", () => show(0, 1));
  plot.addEventListener("keydown", event => {
    const seen = to - from, step = {ArrowLeft: -seen / 4, ArrowRight: seen / 4}[event.key];
    if (event.key === "+" || event.key === "=") show(from + seen / 4, to - seen / 4);
    else if (event.key === "-") show(Math.max(from - seen / 2, 0), Math.min(to + seen / 2, 1));
    else if (event.key === "Escape") show(0, 1);
    else if (step) { const move = Math.min(Math.max(step, -from), 1 - to); show(from + move, to + move) }
    else return;
    event.preventDefault();
  });
}
