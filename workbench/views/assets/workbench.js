// Behaviour of the report. Every page reads without it; it draws the charts, switches the
// gutter and filters tables. Numbers arrive formatted: nothing is computed or rounded here.
"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const json = (id) => JSON.parse(document.getElementById(id).textContent);

  // --- gutter: which counter stands beside the lines ---------------------------------
  function fillGutter(table, gutter) {
    table.querySelector("th.v").textContent = gutter.title;
    table.querySelector("th.w").textContent = gutter.note;
    for (const row of all("tr[data-n]", table)) {
      const value = gutter.rows[row.dataset.n];
      const cell = row.querySelector(".v");
      cell.replaceChildren();
      row.querySelector(".w").textContent = value ? value[3] : "";
      if (!value) continue;
      const [text, width, excess] = value;
      for (const [share, name] of [[width, ""], [excess, "x"]]) {
        if (share <= 0) continue;
        const bar = document.createElement("i");
        bar.style.width = `${share}%`;
        if (name) bar.className = name;
        cell.append(bar);
      }
      const span = document.createElement("span");
      span.textContent = text;
      cell.append(span);
    }
  }
  for (const set of all("fieldset[data-gutters]")) {
    const gutters = json(set.dataset.gutters);
    const tables = set.dataset.tables.split(" ").map((id) => document.getElementById(id));
    set.addEventListener("change", (event) => {
      const chosen = gutters[event.target.value];
      for (const table of tables) fillGutter(table, chosen[table.id]);
    });
    // A reload may restore a choice that the markup does not show.
    const checked = set.querySelector("input:checked");
    if (checked && !checked.defaultChecked) {
      for (const table of tables) fillGutter(table, gutters[checked.value][table.id]);
    }
  }

  // A long file starts where its counters do; the page itself does not move.
  for (const box of all(".window")) {
    const first = box.querySelector("tr[data-n]");
    if (first && !location.hash) box.scrollTop = Math.max(0, first.offsetTop - 6 * first.offsetHeight);
  }

  // --- deep links: open what is folded around the target -----------------------------
  function reveal() {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch {
      return; // a malformed escape in a hand-typed link
    }
    if (!target) return;
    let folded = false;
    for (let node = target.closest("details:not([open])"); node; node = target.closest("details:not([open])")) {
      node.open = true;
      folded = true;
    }
    if (folded) target.scrollIntoView({ block: "center" });
  }
  addEventListener("hashchange", reveal);
  reveal();

  // --- hovering an instruction marks its source line, and the other way round --------
  let marked = [];
  document.addEventListener("mouseover", (event) => {
    const row = event.target.closest ? event.target.closest("tr[data-at]") : null;
    for (const other of marked) other.classList.remove("on");
    marked = row ? all(`tr[data-at="${CSS.escape(row.dataset.at)}"]`).filter((other) => other !== row) : [];
    for (const other of marked) other.classList.add("on");
  });

  // --- filters -----------------------------------------------------------------------
  for (const input of all("input[data-filter]")) {
    const table = document.getElementById(input.dataset.filter);
    const status = document.getElementById(input.getAttribute("aria-describedby"));
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const body of table.tBodies) {
        let here = 0;
        for (const row of all("tr:not(.group)", body)) {
          const text = (row.dataset.text || row.textContent).toLowerCase();
          row.hidden = !words.every((word) => text.includes(word));
          if (!row.hidden) here += 1;
        }
        body.hidden = here === 0;
        shown += here;
      }
      status.textContent = `${shown} shown`;
    };
    input.addEventListener("input", apply);
    if (input.value) apply();
  }

  // --- charts ------------------------------------------------------------------------
  // Figures name colours by token ("@c1"), so that one figure serves light and dark.
  const style = () => getComputedStyle(document.documentElement);
  function paint(value, css) {
    if (typeof value === "string") return value.startsWith("@") ? css.getPropertyValue(`--${value.slice(1)}`).trim() : value;
    if (Array.isArray(value)) return value.map((item) => paint(item, css));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, paint(item, css)]));
    }
    return value;
  }
  const config = { displayModeBar: false, responsive: true, displaylogo: false, scrollZoom: false };
  function draw(node) {
    const figure = json(node.dataset.figure);
    const css = style();
    const small = node.clientWidth < 520;
    const layout = { ...figure.layout, ...(small ? figure.narrow || {} : {}) };
    const unlabelled = (trace) => ({ ...trace, mode: (trace.mode || "").replace("+text", "") });
    const data = small && figure.quiet ? figure.data.map(unlabelled) : figure.data;
    return window.Plotly.react(node, paint(data, css), paint(layout, css), config).then(() => {
      node.dataset.drawn = "yes";
    });
  }
  function drawAll() {
    // A folded chart has no width yet; it is drawn when it is opened.
    const folded = (node) => node.closest("details:not([open])");
    const waiting = all("[data-figure]").filter((node) => !folded(node));
    document.addEventListener(
      "toggle",
      (event) => {
        if (!event.target.open) return;
        for (const node of all("[data-figure]:not([data-drawn])", event.target)) if (!folded(node)) draw(node);
      },
      true,
    );
    const idle = window.requestIdleCallback || ((job) => setTimeout(job, 1));
    const next = () => {
      const node = waiting.shift();
      if (node) draw(node).then(() => idle(next));
    };
    next();
    // Paper is always light, so printing repaints as well.
    for (const query of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(query).addEventListener("change", () => all("[data-drawn]").forEach(draw));
    }
  }
  const library = document.getElementById("plotly");
  if (window.Plotly) drawAll();
  else if (library) {
    library.addEventListener("load", drawAll);
    library.addEventListener("error", () => {
      for (const node of all("[data-figure]")) node.textContent = "This chart needs assets/plotly.min.js; its numbers are in the table below.";
    });
  }
})();
