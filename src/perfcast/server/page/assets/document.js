// An answer: markup of the reports, with plotly's figures in the places kept for them. What has not changed stays
// as it is, so that focus, scrolling and a figure's zoom survive the next answer.
export default {
  template: `<div class="answer"></div>`,
  props: { html: String, figures: Object, picks: String },
  mounted() {
    this.$el.addEventListener("click", this.on_click);
    this.$el.addEventListener("keydown", this.on_key);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.$el);
    this.show();
  },
  updated() { this.show(); },
  unmounted() { this.observer?.disconnect(); },
  methods: {
    show() {
      if (this.html === this.shown && this.figures === this.drawn) return;
      if (this.html !== this.shown) this.merge(this.html);
      this.shown = this.html;
      this.drawn = this.figures;
      this.draw();
      if (this.picks) this.make_pickable();
      this.fit();
    },
    merge(html) {
      const next = document.createElement("template");
      next.innerHTML = html;
      const before = new Map([...this.$el.children].map(child => [child.source, child]));
      const kept = new Map([...this.$el.querySelectorAll("[data-figure]")].map(div => [div.dataset.figure, div]));
      const children = [...next.content.children].map(child => {
        child.source = child.outerHTML;
        const old = before.get(child.source);
        before.delete(child.source);
        if (old) return old;
        for (const place of child.querySelectorAll("[data-figure]")) {
          const div = kept.get(place.dataset.figure);
          if (div) place.replaceWith(div);
        }
        return child;
      });
      this.$el.replaceChildren(...children);
    },
    async draw() {
      const places = [...this.$el.querySelectorAll("[data-figure]")];
      if (!places.length) return;
      const { Plotly } = await import("nicegui-plotly");
      this.plotly = Plotly;
      for (const place of places) {
        const figure = this.figures?.[place.dataset.figure];
        if (!figure || !place.isConnected || place.figure === figure) continue;
        place.figure = figure;
        const config = { responsive: false, displaylogo: false, displayModeBar: false };
        await Plotly.react(place, figure.data, { ...figure.layout, width: undefined, autosize: true }, config);
      }
    },
    fit() {
      for (const room of this.$el.querySelectorAll(".scroll")) {
        const table = room.querySelector("table");
        if (table && table.scrollWidth > room.clientWidth + 1) table.classList.add("tight");
      }
      if (!this.plotly) return;
      for (const place of this.$el.querySelectorAll("[data-figure].js-plotly-plot")) this.plotly.Plots.resize(place);
    },
    make_pickable() {
      for (const row of this.$el.querySelectorAll("tbody tr")) {
        const headings = [...row.closest("table").querySelectorAll("thead th")].map(th => th.textContent.trim());
        if (!headings.includes(this.picks)) continue;
        row.classList.add("pickable");
        row.tabIndex = 0;
      }
    },
    pick(row) {
      const headings = [...row.closest("table").querySelectorAll("thead th")].map(th => th.textContent.trim());
      const cells = {};
      headings.forEach((heading, at) => { cells[heading] = row.cells[at]?.textContent.trim() ?? ""; });
      this.$emit("pick", cells);
    },
    on_click(event) {
      const button = event.target.closest("th button");
      if (button) return this.sort(button);
      const row = event.target.closest("tr.pickable");
      if (row && !getSelection().toString()) this.pick(row);
    },
    on_key(event) {
      if (event.target.matches?.("tr.pickable") && (event.key === "Enter" || event.key === " ")) {
        event.preventDefault();
        this.pick(event.target);
      }
    },
    sort(button) {
      const th = button.parentNode, body = th.closest("table").tBodies[0];
      const index = th.cellIndex, numeric = th.classList.contains("number");
      const up = numeric ? th.ariaSort === "descending" : th.ariaSort !== "ascending";
      const key = row => row.cells[index].dataset.value, text = row => row.cells[index].textContent;
      const order = (a, b) => numeric ? key(a) - key(b) : text(a).localeCompare(text(b));
      for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      body.append(...[...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)));
    },
  },
};
