// What the page does by itself: copy buttons, the theme, and going back in the history.
document.addEventListener("click", async event => {
  const button = event.target.closest("[data-copy]");
  if (button) {
    const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
    await copy(text);
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1200);
  }
  if (event.target.closest("[data-theme-switch]")) {
    const is_dark = document.body.classList.contains("body--dark");
    localStorage.setItem("perfcast-theme", is_dark ? "light" : "dark");
    setDark(!is_dark);
  }
});

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

window.addEventListener("popstate", () => emitEvent("perfcast_address", location.search));

window.perfcast_theme = () => {
  const theme = localStorage.getItem("perfcast-theme");
  if (theme) setDark(theme === "dark");
};

// A slider's focus is on its track, its name and value are on what holds it.
document.addEventListener("focusin", event => {
  const track = event.target, holder = track.closest?.(".q-slider");
  if (!holder || holder === track) return;
  for (const name of ["role", "aria-label", "aria-valuemin", "aria-valuemax", "aria-valuenow"]) {
    const value = holder.getAttribute(name);
    if (value !== null) track.setAttribute(name, value);
  }
});
