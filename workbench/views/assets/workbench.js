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

  // --- the same on both sides of a diff ----------------------------------------------
  function fillPair(cell, value, before) {
    cell.replaceChildren();
    if (value) {
      for (const [share, name] of [[value[1], ""], [value[2], "x"]]) {
        if (share <= 0) continue;
        const bar = document.createElement("i");
        bar.style.width = `${share}%`;
        if (name) bar.className = name;
        cell.append(bar);
      }
    }
    if (before) {
      const was = document.createElement("s");
      was.textContent = `${before[0]} → `;
      cell.append(was);
    }
    if (value || before) {
      const now = document.createElement(value ? "span" : "s");
      now.textContent = value ? value[0] : "0";
      if (value && value[3]) now.title = value[3];
      cell.append(now);
    }
  }
  function switchPair(gutter) {
    for (const cell of all(".sbs .v[data-o], .sbs .v[data-n]")) {
      const { n, o } = cell.dataset;
      if (n) fillPair(cell, gutter.new[n], o && gutter.old[o]);
      else fillPair(cell, gutter.old[o]);
    }
  }
  for (const set of all("fieldset[data-pair-gutters]")) {
    const gutters = json(set.dataset.pairGutters);
    set.addEventListener("change", (event) => switchPair(gutters[event.target.value]));
    const checked = set.querySelector("input:checked");
    if (checked && !checked.defaultChecked) switchPair(gutters[checked.value]);
  }

  // --- side by side or unified; a narrow page is always unified ------------------------
  const room = matchMedia("(min-width: 901px)");
  const layouts = document.querySelector("fieldset[data-layout]");
  const remember = (key, value) => {
    try {
      if (value !== undefined) localStorage.setItem(key, value);
      return localStorage.getItem(key);
    } catch {
      return null; // pages from a disk may be denied a memory
    }
  };
  function layOut() {
    const chosen = layouts.querySelector("input:checked").value;
    document.querySelector("main").classList.toggle("unified", chosen === "unified" || !room.matches);
  }
  if (layouts) {
    const before = layouts.querySelector(`input[value="${CSS.escape(remember("workbench-layout") || "")}"]`);
    if (before) before.checked = true;
    layouts.addEventListener("change", (event) => {
      remember("workbench-layout", event.target.value);
      layOut();
    });
    room.addEventListener("change", layOut);
    layOut();
  }

  // --- one of several panels -----------------------------------------------------------
  for (const set of all("fieldset[data-picks]")) {
    const pick = () => {
      for (const input of all("input", set)) {
        const panel = document.getElementById(input.value);
        panel.hidden = !input.checked;
        if (input.checked) panel.dispatchEvent(new CustomEvent("shown", { bubbles: true }));
      }
    };
    set.addEventListener("change", pick);
    pick();
  }

  // --- sorting -------------------------------------------------------------------------
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0];
    const original = Array.from(body.rows);
    const key = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.s === undefined ? cell.textContent.trim().toLowerCase() : cell.dataset.s;
    };
    table.tHead.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-sort]");
      if (!button) return;
      const head = button.closest("th");
      const column = Number(button.dataset.sort);
      const number = button.dataset.kind === "number";
      // Numbers start with the largest, words with A; a third click restores the catalog's order.
      const turns = number ? ["descending", "ascending", ""] : ["ascending", "descending", ""];
      const next = turns[(turns.indexOf(head.getAttribute("aria-sort") || "") + 1) % 3];
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      let rows = original.slice();
      if (next) {
        head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        rows.sort((a, b) => {
          const [x, y] = [key(a, column), key(b, column)];
          if (x === "" || y === "") return (x === "") - (y === ""); // what is missing comes last
          return sign * (number ? Number(x) - Number(y) : x.localeCompare(y));
        });
      }
      body.append(...rows);
    });
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
    if (target.matches("tr.still")) {
      document.getElementById("show-all").checked = true;
      folded = true;
    }
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
      const seen = all("tbody tr:not(.group)", table).filter((row) => row.getClientRects().length);
      status.textContent = `${table.tBodies.length > 1 ? shown : seen.length} shown`;
    };
    input.addEventListener("input", apply);
    for (const radio of all("input[type=radio]", input.parentElement)) radio.addEventListener("change", apply);
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
  // A step of a waterfall leads to its hunk.
  function follow(event) {
    const data = event.points[0].customdata;
    const href = Array.isArray(data) ? data[1] : "";
    if (href && href.startsWith("#")) location.hash = href;
  }
  function draw(node) {
    const figure = json(node.dataset.figure);
    const css = style();
    const small = node.clientWidth < 520;
    const layout = { ...figure.layout, ...(small ? figure.narrow || {} : {}) };
    const unlabelled = (trace) => ({ ...trace, mode: (trace.mode || "").replace("+text", "") });
    const data = small && figure.quiet ? figure.data.map(unlabelled) : figure.data;
    return window.Plotly.react(node, paint(data, css), paint(layout, css), config).then(() => {
      if (!node.dataset.drawn) node.on("plotly_click", follow);
      node.dataset.drawn = "yes";
    });
  }
  // Draws one chart after the other while the page is idle: each takes some ten milliseconds.
  const queue = [];
  let drawing = false;
  const idle = window.requestIdleCallback ? (job) => requestIdleCallback(job, { timeout: 500 }) : (job) => setTimeout(job, 1);
  function next() {
    const node = queue.shift();
    drawing = Boolean(node);
    if (node) draw(node).then(() => idle(next));
  }
  // A folded or hidden chart has no width yet; it is drawn when it is shown.
  const out = (node) => node.closest("details:not([open]), [hidden]");
  function enqueue(root = document) {
    if (!window.Plotly) return;
    for (const node of all("[data-figure]:not([data-drawn])", root)) {
      if (!out(node) && !queue.includes(node)) queue.push(node);
    }
    if (!drawing) next();
  }

  // The library takes most of a second to start, in which a page does not answer. It starts
  // when a chart comes into view, or when nobody has done anything for a while.
  const QUIET = 1500;
  let started = false;
  function start() {
    const later = document.getElementById("plotly");
    if (window.Plotly) return enqueue();
    if (started || !later) return undefined;
    started = true;
    const script = document.createElement("script");
    script.src = later.src;
    script.async = true;
    script.addEventListener("load", () => enqueue());
    script.addEventListener("error", () => {
      for (const node of all("[data-figure]")) node.textContent = "This chart needs assets/plotly.min.js; its numbers are in the table below.";
    });
    document.head.append(script);
    return undefined;
  }
  const figures = all("[data-figure]");
  if (figures.length) {
    document.addEventListener("toggle", (event) => event.target.open && enqueue(event.target), true);
    document.addEventListener("shown", (event) => enqueue(event.target));
    // Paper is always light, so printing repaints as well; and all of it is printed.
    for (const query of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(query).addEventListener("change", () => all("[data-drawn]").forEach(draw));
    }
    addEventListener("beforeprint", () => {
      if (!window.Plotly) return;
      for (const node of figures) if (!node.dataset.drawn && !out(node)) draw(node);
    });
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      // Not before the first frame: what the reader looks for is on the page already.
      requestAnimationFrame(() => setTimeout(start, 0));
    });
    for (const node of figures) seen.observe(node);
    let patience = setTimeout(start, QUIET);
    for (const kind of ["pointerdown", "keydown", "wheel"]) {
      addEventListener(kind, () => {
        clearTimeout(patience);
        if (!started) patience = setTimeout(start, QUIET);
      }, { passive: true });
    }
  }
})();
