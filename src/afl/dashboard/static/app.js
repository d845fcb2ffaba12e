// Times that people read, the choice of light or dark, questions before what cannot be undone, a
// word when the page is not live, and nothing lost of what somebody types or reads while it is.
// Everything works without this, only less comfortably.
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
  // The page in the menu, the line that is being done, and the end of a log are to be seen.
  function reveal() {
    const here = document.querySelector("nav [aria-current]");
    if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 40;
    for (const each of document.querySelectorAll(".log")) each.scrollTop = each.scrollHeight;
    const line = document.querySelector(".source .now");
    if (line) line.parentElement.scrollTop = line.offsetTop - line.parentElement.offsetTop - 60;
  }
  function set(each, text) {
    if (each.textContent !== text) each.textContent = text;
  }
  // A part that is live is replaced as a whole: focus, typed text and places to read at stay.
  const FIELDS = "textarea, select, input:not([type=hidden])";
  const SCROLLED = ".scroll, .log, pre";
  const before = new WeakMap();
  function mark(each) {
    const form = each.form ? each.form.getAttribute("action") : "";
    return [each.id, each.tagName, each.getAttribute("href"), form, each.name, each.value].join(" ");
  }
  function keep(part) {
    const active = document.activeElement;
    before.set(part, {
      focus: part !== active && part.contains(active) ? mark(active) : null,
      typed: [...part.querySelectorAll(FIELDS)].filter((each) => each.id)
        .filter((each) => each.value !== (each.defaultValue ?? each.value))
        .map((each) => [each.id, each.value]),
      places: [part, ...part.querySelectorAll(SCROLLED)].map((each) => ({
        top: each.scrollTop, left: each.scrollLeft,
        atEnd: each.className.includes("log") && each.scrollTop + each.clientHeight >= each.scrollHeight - 4,
      })),
    });
  }
  function restore(part) {
    const kept = before.get(part);
    if (!kept) return;
    for (const [id, value] of kept.typed) {
      const field = document.getElementById(id);
      if (field) field.value = value;
    }
    [part, ...part.querySelectorAll(SCROLLED)].forEach((each, index) => {
      const place = kept.places[index];
      if (!place) return;
      each.scrollTop = place.atEnd ? each.scrollHeight : place.top;
      each.scrollLeft = place.left;
    });
    if (kept.focus === null) return;
    const all = part.querySelectorAll(`a, button, [tabindex], ${FIELDS}`);
    [...all].find((each) => mark(each) === kept.focus)?.focus({ preventScroll: true });
  }
  // With the connection, all parts come; what is there already need not be replaced.
  function plain(html) {
    const page = document.createElement("template");
    page.innerHTML = html;
    for (const each of page.content.querySelectorAll("time")) each.textContent = "";
    return page.innerHTML;
  }
  // A part that is replaced under a finger would lose the click.
  let isPressed = false;
  const late = new Map();
  function release() {
    isPressed = false;
    setTimeout(() => {
      if (isPressed) return;
      for (const [part, html] of late) {
        keep(part);
        htmx.swap(part, html, { swapStyle: "innerHTML" });
        restore(part);
      }
      late.clear();
      tick();
    }, 0);
  }
  function receive(event) {
    const part = event.target, html = event.detail.data;
    late.delete(part);
    if (plain(html) === plain(part.innerHTML)) return event.preventDefault();
    if (!isPressed) return keep(part);
    late.set(part, html);
    event.preventDefault();
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
    document.body.addEventListener("htmx:sseBeforeMessage", receive);
    document.body.addEventListener("htmx:sseMessage", (event) => {
      restore(event.target);
      tick();
    });
    document.body.addEventListener("htmx:sseOpen", () => banner(false));
    document.body.addEventListener("htmx:sseError", () => banner(true));
    addEventListener("pageshow", () => {
      for (const each of document.querySelectorAll("[aria-busy]")) each.removeAttribute("aria-busy");
    });
  });
  addEventListener("pointerdown", () => { isPressed = true; }, true);
  for (const each of ["pointerup", "pointercancel"]) addEventListener(each, release, true);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest(FIELDS)) return;
    const search = document.querySelector("input[type=search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
  });
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
    // Once is enough, however slow the answer is.
    else event.submitter?.setAttribute("aria-busy", "true");
  });
})();
