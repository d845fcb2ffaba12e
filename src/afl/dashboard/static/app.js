// Times that people read, the choice of light or dark, questions before what cannot be undone, and
// a word when the page is not live. Everything works without this, only less comfortably.
(() => {
  "use strict";
  const root = document.documentElement;
  const known = localStorage.getItem("afl-theme");
  if (known) root.dataset.theme = known;

  const UNITS = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  function span(seconds) {
    if (seconds < 10 && seconds >= 0.95) return seconds.toFixed(1) + " s";
    const whole = Math.max(0, Math.floor(seconds));
    for (const [big, unit, small, part] of UNITS)
      if (whole >= big)
        return `${Math.floor(whole / big)} ${unit} ${Math.floor((whole % big) / small)} ${part}`;
    return whole + " s";
  }
  function ago(seconds) {
    if (seconds < -1) return "in " + span(-seconds).replace(/ \d+ \w+$/, "");
    if (seconds < 1) return "now";
    const text = span(Math.floor(seconds)).replace(".0 ", " ");
    return (seconds < 60 ? text : text.replace(/ \d+ \w+$/, "")) + " ago";
  }
  // The clock of the browser may be wrong: what counts is the time since the page was made.
  const made = Date.parse(document.querySelector("meta[name=afl-now]")?.content || "");
  const offset = isNaN(made) ? 0 : made - Date.now();
  function tick() {
    const now = Date.now() + offset;
    for (const each of document.querySelectorAll("time[data-ago]"))
      set(each, ago((now - Date.parse(each.dateTime)) / 1000));
    for (const each of document.querySelectorAll("time[data-since]"))
      set(each, span((now - Date.parse(each.dateTime)) / 1000));
  }
  // The line that is being done is to be seen.
  function reveal() {
    const line = document.querySelector(".source .now");
    if (line) line.parentElement.scrollTop = line.offsetTop - line.parentElement.offsetTop - 60;
  }
  function set(each, text) {
    if (each.textContent !== text) each.textContent = text;
  }
  function banner(shown) {
    const found = document.getElementById("not-live");
    if (found) found.hidden = !shown;
  }

  document.addEventListener("DOMContentLoaded", () => {
    tick();
    reveal();
    setInterval(tick, 1000);
    document.getElementById("theme")?.addEventListener("click", () => {
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      const now = root.dataset.theme || (dark ? "dark" : "light");
      root.dataset.theme = now === "dark" ? "light" : "dark";
      localStorage.setItem("afl-theme", root.dataset.theme);
    });
    document.body.addEventListener("htmx:afterSettle", tick);
    document.body.addEventListener("htmx:sseMessage", tick);
    document.body.addEventListener("htmx:sseOpen", () => banner(false));
    document.body.addEventListener("htmx:sseError", () => banner(true));
  });
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });
})();
