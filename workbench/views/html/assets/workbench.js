// Behaviour of the report. Every page reads without it; it draws the charts, switches the
// gutter and filters tables. Numbers arrive formatted: nothing is computed or rounded here.
"use strict";
(() => {
  // What is said to people: marked with _ for `make catalogue`; {names} are filled in.
  const { words } = window.workbenchLanguage || { words: {} };
  const _ = (text, values = {}) => (words[text] || text).replace(/\{(\w+)\}/g, (found, name) => values[name] ?? found);
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const json = (id) => JSON.parse(document.getElementById(id).textContent);
  const part = (name, text, more) => Object.assign(document.createElement(name), { textContent: text || "" }, more);
  const button = (text, onclick) => part("button", text, { type: "button", onclick });
  const remember = (key, value) => {
    try {
      if (value !== undefined) localStorage.setItem(key, value);
      return localStorage.getItem(key) || "";
    } catch {
      return ""; // pages from a disk may be denied a memory
    }
  };
  window.workbench = { _, all, part, button, remember }; // for the other script
  // The bar behind a number, and another of what exceeds the ideal.
  function bars(cell, ...widths) {
    widths.forEach((width, n) => {
      if (!(width > 0)) return;
      const bar = part("i", "", { className: n ? "x" : "" });
      bar.style.width = `${width}%`;
      cell.append(bar);
    });
  }
  function choose(set, use) {
    set.addEventListener("change", (event) => use(event.target.value));
    // A reload may restore a choice that the markup does not show.
    const checked = set.querySelector("input:checked");
    if (checked && !checked.defaultChecked) use(checked.value);
  }
  const idle = window.requestIdleCallback ? (job) => requestIdleCallback(job, { timeout: 500 }) : (job) => setTimeout(job, 1);
  // Reads the script that an inert element names, once: the page itself does not wait for it.
  const scripts = new Map();
  function load(id) {
    const later = document.getElementById(id);
    if (!scripts.has(id)) {
      scripts.set(id, new Promise((done, failed) => {
        const onerror = () => failed(new Error(later.getAttribute("src")));
        document.head.append(part("script", "", { src: later.src, onload: done, onerror }));
      }));
    }
    return scripts.get(id);
  }

  // Gutter: which counter stands beside the lines.
  function fillGutter(table, gutter) {
    table.querySelector("th.v").textContent = gutter.title;
    table.querySelector("th.w").textContent = gutter.note;
    for (const row of all("tr[data-n]", table)) {
      const [text, width, excess, note] = gutter.rows[row.dataset.n] || [];
      const cell = row.querySelector(".v");
      cell.replaceChildren();
      row.querySelector(".w").textContent = note || "";
      bars(cell, width, excess);
      if (text) cell.append(part("span", text));
    }
    table.dispatchEvent(new Event("heat"));
  }
  for (const set of all("fieldset[data-gutters]")) {
    const gutters = json(set.dataset.gutters);
    choose(set, (value) => {
      for (const id of set.dataset.tables.split(" ")) fillGutter(document.getElementById(id), gutters[value][id]);
    });
  }

  // The same on both sides of a diff.
  function fillPair(cell, value, before) {
    cell.replaceChildren();
    if (value) bars(cell, value[1], value[2]);
    if (before) cell.append(part("s", `${before[0]} → `));
    if (!value && !before) return;
    const now = part(value ? "span" : "s", value ? value[0] : "0");
    if (value && value[3]) now.title = value[3];
    cell.append(now);
  }
  for (const set of all("fieldset[data-pair-gutters]")) {
    const gutters = json(set.dataset.pairGutters);
    choose(set, (value) => {
      const gutter = gutters[value];
      for (const cell of all(".sbs .v[data-o], .sbs .v[data-n]")) {
        const { n, o } = cell.dataset;
        if (n) fillPair(cell, gutter.new[n], o && gutter.old[o]);
        else fillPair(cell, gutter.old[o]);
      }
    });
  }

  // Side by side or unified; a narrow page is always unified.
  const room = matchMedia("(min-width: 901px)");
  const layouts = document.querySelector("fieldset[data-layout]");
  function layOut() {
    const chosen = layouts.querySelector("input:checked").value;
    document.querySelector("main").classList.toggle("unified", chosen === "unified" || !room.matches);
  }
  if (layouts) {
    const before = layouts.querySelector(`input[value="${CSS.escape(remember("workbench-layout"))}"]`);
    if (before) before.checked = true;
    layouts.addEventListener("change", (event) => {
      remember("workbench-layout", event.target.value);
      layOut();
    });
    room.addEventListener("change", layOut);
    layOut();
  }

  // One of several panels.
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

  // One of several panels, by several choices at once.
  for (const box of all("[data-choices]")) {
    const panels = Array.from(document.getElementById(box.dataset.choices).children);
    const pick = () => {
      const chosen = all("input:checked", box).map((input) => input.value);
      for (const panel of panels) {
        const parts = panel.dataset.parts.split(" ");
        panel.hidden = chosen.some((value) => !parts.includes(value));
        if (!panel.hidden) panel.dispatchEvent(new CustomEvent("shown", { bubbles: true }));
      }
    };
    box.addEventListener("change", pick);
    pick();
  }

  function sortable(table) {
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
  all("table.sortable").forEach(sortable);
  // A link to each counter's row: the same markup in every row would be the most of a long page.
  for (const row of all("#counter-table tr[id]")) {
    const name = row.querySelector("a");
    const ariaLabel = _("Link to {what}", { what: name.textContent });
    name.after(" ", part("a", "#", { className: "hash", href: `#${row.id}`, ariaLabel }));
  }

  // A window of code says that there is more, and shows all of it at once where that is wanted.
  for (const box of all(".hunk .codes.window")) {
    if (box.scrollHeight < box.clientHeight + 80) box.classList.remove("window");
    if (!box.matches(".window")) continue;
    const tools = part("div", "", { className: "heats" });
    const whole = () => { box.classList.remove("window"); tools.remove(); };
    tools.append(button(_("Show all lines"), whole));
    box.after(tools);
  }
  // Code in a window opens at its hottest line, of a hunk at the hottest that changed; a long file
  // without any starts where its counters do. The page itself does not move.
  for (const box of all(".window")) {
    const own = all(".mod", box);
    const bars = (own.length ? own : [box]).flatMap((part) => all("td.v i", part));
    const wide = (bar) => parseFloat(bar.style.width);
    const hottest = bars.reduce((best, bar) => (best && wide(best) >= wide(bar) ? best : bar), null);
    const first = (hottest && hottest.closest("td")) || (own[0] || box).querySelector(".mod td, tr[data-n]");
    if (!first || location.hash) continue;
    const top = first.getBoundingClientRect().top - box.getBoundingClientRect().top;
    // Whole lines: those of a hunk are 20 pixels high, as its window's height expects.
    const above = Math.max(0, top - box.clientHeight / 3);
    if (top > 0.8 * box.clientHeight) box.scrollTop = above - above % 20;
  }

  // Hot lines: the next one, the hottest first, and a map of the window.
  function heat(row) {
    const bar = row.cells[1] && row.cells[1].querySelector("i");
    return bar ? parseFloat(bar.style.width) || 0.01 : 0;
  }
  function centre(box, row) {
    box.scrollTop += row.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
  }
  function warm(table) {
    const box = table.closest(".window");
    const body = table.tBodies[0];
    const map = part("div", "", { className: "map" });
    const view = part("b");
    let kept = null; // all rows in their order, while the hottest stand first
    let at = -1;
    const hottest = () => Array.from(body.rows).filter((row) => heat(row) && !row.matches(".cold")).sort((a, b) => heat(b) - heat(a));
    const follow = () => {
      map.style.height = `${box.clientHeight}px`;
      view.style.top = `${100 * box.scrollTop / box.scrollHeight}%`;
      view.style.height = `${100 * box.clientHeight / box.scrollHeight}%`;
    };
    const draw = () => {
      map.replaceChildren(view, ...hottest().map((row) => {
        const mark = part("i");
        mark.style.top = `${100 * row.sectionRowIndex / body.rows.length}%`;
        mark.style.opacity = 0.2 + heat(row) / 125;
        return mark;
      }));
      follow();
    };
    const next = button(_("Next hot line"), () => {
      const rows = hottest();
      if (!rows.length) return;
      at = (at + 1) % rows.length;
      centre(box, rows[at]);
      selected = "";
      select(rows[at].dataset.at, rows[at]);
    });
    next.dataset.next = "";
    const sort = button(_("Hottest first"), () => {
      const rows = kept || hottest();
      kept = kept ? null : Array.from(body.rows);
      body.replaceChildren(...rows);
      sort.setAttribute("aria-pressed", String(Boolean(kept)));
      box.scrollTop = 0;
      at = -1;
      draw();
    });
    const tools = part("div", "", { className: "heats" });
    tools.append(next, sort);
    map.addEventListener("click", (event) => {
      box.scrollTop = (event.clientY - map.getBoundingClientRect().top) / map.clientHeight * box.scrollHeight - box.clientHeight / 2;
    });
    box.before(tools);
    box.after(map);
    box.addEventListener("scroll", follow, { passive: true });
    table.addEventListener("heat", () => {
      if (kept) sort.click();
      at = -1;
      draw();
    });
    draw();
  }
  for (const table of all("table.src:not(.ptx, .mcode)")) if (table.querySelector("td:nth-child(2) i")) warm(table);

  const code = () => (window.workbenchCode ? Promise.resolve() : load("code"));
  // What is folded between lines.
  function gap(columns, words, rows) {
    const row = part("tr", "", { className: "gap" });
    const cell = part("td", "", { colSpan: columns });
    row.unfold = () => {
      const table = row.closest("table");
      row.replaceWith(...rows());
      table.dispatchEvent(new Event("heat"));
    };
    cell.append(button(words, () => code().then(row.unfold, () => undefined)));
    row.append(cell);
    return row;
  }

  // Instructions: a file beside the page holds all of them.
  // Rows are made piece by piece while the browser is idle: a kernel has thousands.
  const PIECE = 250;
  function fill(body, count, row) {
    return new Promise((done) => {
      const made = document.createDocumentFragment();
      let n = 0;
      const more = () => {
        for (const end = Math.min(count, n + PIECE); n < end; n += 1) made.append(row(n));
        if (n < count) return idle(more);
        body.replaceChildren(made);
        return done();
      };
      more();
    });
  }
  // `.L4: @!P0 BRA .L2` as label, guard, operation, operands; a label that is named is a link.
  function instruction(words, address) {
    const [, label, guard, operation, operands, name] = /^(\.L\d+: )?(@\S+\s+)?(\S*)(.*?)(\.L\d+)?$/s.exec(words);
    const out = [guard || "", part("b", operation), operands];
    if (label) out.unshift(part("em", label));
    const href = name && address(name);
    const target = name && part(href ? "a" : "span", name);
    if (href) target.href = href;
    return target ? [...out, target] : out;
  }
  const word = (numbers, words, n) => words[numbers === 0 ? 0 : numbers[n]];
  function sassRow(code, texts, k, n) {
    const { sass, anchors } = code;
    const row = part("tr", "", { id: `${k}-i${n}` });
    const file = word(sass.file, sass.files, n);
    const line = sass.line[n];
    const place = part("td", line ? "" : undefined);
    if (line) {
      row.dataset.at = `${file}:${line}`;
      const id = `${anchors[file]}${line}`;
      const link = part(document.getElementById(id) ? "a" : "span", String(line));
      if (link.localName === "a") link.href = `#${id}`;
      place.append(link);
    }
    const samples = part("td");
    const [share, width] = word(sass.samples, sass.shares, n);
    if (share) {
      bars(samples, width);
      samples.append(part("span", share));
      samples.title = word(sass.stall, sass.stalls, n);
    }
    const text = part("td");
    const label = code.labelled.get(n);
    text.append(...instruction(label ? `${label}: ${texts[n]}` : texts[n], (name) => {
      const target = sass.labels[name];
      return target === undefined ? "" : `#${k}-i${target}`;
    }));
    const offset = Array.isArray(sass.offset) ? sass.offset[n] : (n * sass.offset).toString(16).padStart(4, "0");
    row.append(part("td", offset), samples, part("td", word(sass.executed, sass.counts, n)), place, text, part("td", word(sass.stall, sass.stalls, n)));
    return row;
  }
  function ptxRow(ptx, texts, n) {
    const row = part("tr");
    const at = ptx.places[ptx.at[n]];
    if (at) row.dataset.at = at;
    row.append(part("td", at.split(":")[1]), part("td", texts[n]));
    return row;
  }
  const machines = all("[data-machine]");
  const [WHOLE, NEAR] = [400, 8];
  // Unfolds what holds an instruction; `test` is told its number in the launch `k`.
  const unfold = (k, test) => all(`[data-machine="${k}"] .sass tr.gap`).filter((row) => row.holds && row.holds(test)).forEach((row) => row.unfold());
  let filled = null;
  let complete = false;
  function fillMachines() {
    filled ||= code().then(() => Promise.all(machines.flatMap((box) => {
      const k = box.dataset.machine;
      const code = window.workbenchCode[k];
      const jobs = [];
      const sass = box.querySelector(".sass tbody");
      if (sass) {
        const texts = code.sass.text.split("\n");
        const hot = new Set(code.sass.hot);
        const close = new Set(code.sass.hot.flatMap((n) => Array.from({ length: 2 * NEAR + 1 }, (_, d) => n + d - NEAR)));
        code.labelled = new Map(Object.entries(code.sass.labels).map(([label, n]) => [n, label]));
        const row = (n) => {
          const made = sassRow(code, texts, k, n);
          if (!hot.has(n)) made.className = "cold"; // not printed
          return made;
        };
        // A long kernel is a window around its hot instructions; what lies between them unfolds.
        const shown = texts.map((_, n) => texts.length <= WHOLE || close.has(n));
        const runs = [];
        shown.forEach((near, n) => {
          if (near) runs.push(n);
          else if (n && !shown[n - 1]) runs.at(-1)[1] = n + 1;
          else runs.push([n, n + 1]);
        });
        const between = ([from, to]) => {
          const range = Array.from({ length: to - from }, (_, n) => from + n);
          const folded = gap(6, _("{n} instructions with fewer samples", { n: range.length.toLocaleString("en") }), () => range.map(row));
          folded.holds = (test) => range.some(test);
          return folded;
        };
        jobs.push(fill(sass, runs.length, (n) => (Array.isArray(runs[n]) ? between(runs[n]) : row(runs[n]))).then(() => {
          const table = sass.closest("table");
          table.dispatchEvent(new Event("heat"));
          const [first] = Array.from(sass.rows).sort((a, b) => heat(b) - heat(a));
          if (first && !selected) centre(table.closest(".window"), first);
        }));
      }
      const ptx = box.querySelector(".ptx tbody");
      const texts = code.ptx.text ? code.ptx.text.split("\n") : [];
      const write = () => fill(ptx, texts.length, (n) => ptxRow(code.ptx, texts, n));
      const pane = ptx && ptx.closest(".pick");
      if (ptx && !pane.hidden) jobs.push(write());
      else if (ptx) pane.addEventListener("shown", write, { once: true });
      return jobs;
    }))).catch(() => undefined) // without the file the hottest instructions stay
      .then(() => { complete = true; });
    return filled;
  }
  if (machines.length) {
    const near = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      near.disconnect();
      idle(fillMachines);
    }, { rootMargin: "30% 0px" });
    for (const box of machines) near.observe(box);
    if (window.workbenchCode) idle(fillMachines);
  }

  // Lines of a source that the page left out: the file beside it has them.
  for (const row of all("tr[data-left]")) {
    const [file, from, to] = row.dataset.left.split(" ").map(Number);
    row.replaceWith(gap(4, row.textContent, () => window.workbenchCode.sources[file].slice(from - 1, to).map((text, n) => {
      const line = part("tr");
      line.append(...[["n", String(from + n)], ["v"], ["w"], ["c", text]].map(([className, words]) => part("td", words, { className })));
      return line;
    })));
  }

  // Machine code of a hunk: rows of both sides, made when somebody opens them.
  function mcodeSide(side) {
    const cells = [0, 1, 2, 3].map(() => part("td", "", { className: side ? "" : "e" }));
    if (!side) return cells;
    const [offset, listing, time, width, seconds, text, line, anchor] = side;
    for (const [cell, words, href] of [[cells[0], offset, listing], [cells[1], line || "", anchor]]) {
      const link = part(href ? "a" : "span", String(words));
      if (href) link.href = href;
      cell.append(link);
    }
    if (time) {
      bars(cells[2], width);
      cells[2].append(part("span", time));
    }
    cells[2].dataset.s = seconds;
    cells[3].append(...instruction(text, () => ""));
    return cells;
  }
  function mcodeRow([before, after]) {
    const row = part("tr");
    row.append(...mcodeSide(before), ...mcodeSide(after));
    if (before) row.dataset.o = before[8];
    if (after) row.dataset.n = after[8];
    return row;
  }
  const opened = new Map();
  function fillCode(box) {
    if (!opened.has(box)) {
      opened.set(box, load("code").then(() => {
        const { rows } = window.workbenchCode[box.dataset.code];
        const pane = document.getElementById("mcode").content.firstElementChild.cloneNode(true);
        pane.setAttribute("aria-label", box.querySelector("summary").textContent);
        box.insertBefore(pane, box.querySelector(".note"));
        return fill(pane.querySelector("tbody"), rows.length, (n) => mcodeRow(rows[n]))
          .then(() => sortable(pane.querySelector("table")));
      }));
    }
    return opened.get(box);
  }
  for (const box of all("details.mc")) {
    box.addEventListener("toggle", () => box.open && fillCode(box));
    if (box.open) fillCode(box);
  }
  // The time beside a changed line leads to the hottest of its instructions.
  document.addEventListener("click", (event) => {
    const cell = event.target.closest(".sbs .v[data-n], .sbs .v[data-o]");
    const boxes = cell ? all("details.mc", cell.closest("article") || undefined) : [];
    if (!boxes.length) return;
    const side = cell.dataset.n ? "n" : "o";
    Promise.all(boxes.map(fillCode)).then(() => {
      const rows = boxes.flatMap((box) => all(`tr[data-${side}="${CSS.escape(cell.dataset[side])}"]`, box));
      const seconds = (row) => Number(row.cells[side === "n" ? 6 : 2].dataset.s);
      const hottest = rows.reduce((best, row) => (best && seconds(best) >= seconds(row) ? best : row), null);
      if (!hottest) return;
      for (const other of all(".mcode tr.sel")) other.classList.remove("sel");
      for (const row of rows) row.classList.add("sel");
      hottest.closest("details").open = true;
      hottest.scrollIntoView({ block: "center" });
    });
  });

  // Deep links: open what is folded around the target.
  function reveal() {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch {
      return; // a malformed escape in a hand-typed link
    }
    const [, k, number] = /^#(k\d+)-i(\d+)$/.exec(location.hash) || [];
    if (machines.length && !complete && k) fillMachines().then(reveal);
    if (!target && k && complete) {
      unfold(k, (n) => n === Number(number));
      target = document.getElementById(location.hash.slice(1));
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
    for (let node = target.closest("[hidden]"); node; node = target.closest("[hidden]")) {
      const radio = document.querySelector(`input[value="${CSS.escape(node.id)}"]`);
      if (!radio) break;
      radio.click();
      folded = true;
    }
    if (folded || target.matches(".sass tr")) target.scrollIntoView({ block: "center" });
    if (target.matches("tr[data-at]")) {
      selected = "";
      select(target.dataset.at, target);
    }
  }
  addEventListener("hashchange", reveal);

  // Hovering an instruction marks its source line, and the other way round.
  let marked = [];
  document.addEventListener("mouseover", (event) => {
    const row = event.target.closest ? event.target.closest("tr[data-at]") : null;
    for (const other of marked) other.classList.remove("on");
    marked = row ? all(`tr[data-at="${CSS.escape(row.dataset.at)}"]`).filter((other) => other !== row) : [];
    for (const other of marked) other.classList.add("on");
  });

  // Choosing a line shows what it became, and the other way round.
  let selected = "";
  function select(at, from) {
    for (const row of all("tr.sel")) row.classList.remove("sel");
    selected = at === selected ? "" : at;
    if (!selected) return;
    if (machines.length && !complete) {
      fillMachines().then(() => at === selected && mark(at, from));
    }
    mark(at, from);
  }
  // Samples first; of those without any, one that ran before one that never did.
  const ran = (row) => heat(row) || (row.closest(".sass") && row.cells[2].textContent ? 0.001 : 0);
  function mark(at, from) {
    const hottest = new Map();
    for (const box of window.workbenchCode ? machines : []) {
      const { sass } = window.workbenchCode[box.dataset.machine];
      if (!sass || box.contains(from) || box.querySelector(`.sass tr[data-at="${CSS.escape(at)}"]`)) continue;
      unfold(box.dataset.machine, (n) => `${word(sass.file, sass.files, n)}:${sass.line[n]}` === at);
    }
    for (const row of all(`tr[data-at="${CSS.escape(at)}"]`)) {
      row.classList.add("sel");
      const box = row.closest(".window");
      if (!box || box.contains(from) || !row.getClientRects().length) continue;
      if (!hottest.has(box) || ran(row) > ran(hottest.get(box))) hottest.set(box, row);
    }
    // Of a line's copies (unrolled, inlined, of several templates) each window shows the hottest;
    // the page itself stays where it is.
    for (const [box, row] of hottest) centre(box, row);
  }
  document.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-at]");
    if (row && !event.target.closest("a") && !String(getSelection())) select(row.dataset.at, row);
  });

  // An arrow of the memory chart lights up the lines that ask for it.
  let lit = [];
  let held = null;
  function light(from) {
    for (const node of lit) node.classList.remove("lit");
    const names = from ? from.dataset.lines.split(" ") : [];
    lit = names.map((name) => document.getElementById(name)).filter(Boolean);
    for (const node of lit) node.classList.add("lit");
  }
  function asker(event) {
    if (!event.target.closest) return null;
    const row = event.target.closest(".memory a");
    const found = event.target.closest("[data-lines]");
    return found || (row ? document.querySelector(`${row.getAttribute("href")}[data-lines]`) : null);
  }
  for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, (event) => light(asker(event) || held));
  document.addEventListener("click", (event) => {
    if (asker(event)) light(held = asker(event));
  });

  reveal();

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
      status.textContent = _("{n} shown", { n: table.tBodies.length > 1 ? shown : seen.length });
    };
    input.addEventListener("input", apply);
    for (const radio of all("input[type=radio]", input.parentElement)) radio.addEventListener("change", apply);
    if (input.value) apply();
  }

  // A counter's meaning is written at its first mention; the others get it when they are met.
  let meanings;
  function meaningOf(term) {
    meanings ??= new Map(all("a[title]").reverse().map((node) => [node.textContent, node.title]));
    return term.title || meanings.get(term.textContent) || "";
  }
  function explain(event) {
    const term = event.target.closest && event.target.closest("a:not([title])");
    const meaning = term && meaningOf(term);
    if (meaning) term.title = meaning;
  }
  for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, explain);
  // A counter's name opens its meaning in place; without a script, and in a new tab, it leads to
  // the glossary. The card stands behind its name, so that the next Tab is in it.
  // A page in one file has no glossary to lead to: there the names are buttons.
  const TERM = "a[href*=\"glossary.html#\"], a:not([href])";
  for (const term of all("a:not([href])").filter(meaningOf)) {
    term.tabIndex = 0;
    term.setAttribute("role", "button");
    term.addEventListener("keydown", (event) => event.key === "Enter" && term.click());
  }
  // Examples, units and limits stand beside the glossary; a page in one file has none of them.
  const sheet = document.querySelector("link[rel=stylesheet]");
  let glossary = null;
  const lookUp = () => (glossary ||= new Promise((done) => {
    if (!sheet) return done(null);
    const src = sheet.getAttribute("href").replace(/assets\/.*$/, "glossary.js");
    const told = () => done(window.workbenchGlossary);
    document.head.append(part("script", "", { src, onload: told, onerror: () => done(null) }));
  }));
  function examples(said, term, limit) {
    if (!said) return [];
    const id = decodeURIComponent(term.hash.slice(1));
    const unit = said.units[said.unitOf[id]];
    const example = limit ? limit.example : said.examples[id];
    return [
      example && part("p", _("Example: {example}", { example })),
      !limit && unit && part("p", _("Unit: {unit}. {meaning} {example}", { unit: unit.title, ...unit })),
    ].filter(Boolean);
  }
  function beside(term, card) {
    term.after(card);
    card.showPopover();
    const place = term.getBoundingClientRect();
    const room = innerHeight - place.bottom > card.offsetHeight + 16 || place.top < card.offsetHeight + 16;
    const top = room ? place.bottom + 6 : place.top - card.offsetHeight - 6;
    card.style.left = `${Math.max(8, Math.min(place.left, document.documentElement.clientWidth - card.offsetWidth - 8)) + scrollX}px`;
    card.style.top = `${top + scrollY}px`;
  }
  let shown = null;
  function showMeaning(term, meaning, more) {
    const again = shown && shown.term === term;
    if (shown) shown.card.hidePopover();
    if (again) return;
    const ariaLabel = _("Meaning of {term}", { term: term.textContent });
    const card = part("div", "", { className: "meaning", popover: "auto", role: "dialog", ariaLabel });
    card.append(part("b", term.textContent), part("p", meaning), ...more);
    if (term.href) card.append(part("a", _("In the glossary"), { href: term.href }));
    beside(term, card);
    term.setAttribute("aria-expanded", "true");
    shown = { term, card };
    card.addEventListener("toggle", (event) => {
      if (event.newState !== "closed") return;
      const inside = card.contains(document.activeElement);
      card.remove();
      term.removeAttribute("aria-expanded");
      if (inside) term.focus();
      if (shown && shown.card === card) shown = null;
    });
  }
  document.addEventListener("click", (event) => {
    const term = event.target.closest(TERM);
    if (!term || term.closest(".meaning") || event.ctrlKey || event.metaKey || event.shiftKey || !term.showPopover) return;
    const meaning = meaningOf(term);
    if (!meaning && !sheet) return;
    event.preventDefault();
    lookUp().then((said) => {
      const limit = meaning ? null : said && said.limits[decodeURIComponent(term.hash.slice(1))];
      if (meaning || limit) showMeaning(term, meaning || limit.meaning, examples(said, term, limit));
      else location.assign(term.href);
    });
  });

  // Figures name colours by token ("@c1"), so that one figure serves light and dark.
  const probe = part("span", "", { hidden: true });
  document.body.append(probe);
  const style = () => getComputedStyle(probe);
  function paint(value, css) {
    if (typeof value === "string" && value.startsWith("@")) {
      probe.style.color = `var(--${value.slice(1)})`;
      return css.color;
    }
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
  // A version's name in the table of a sweep gives its line a colour, or takes it away.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-line]");
    if (!button) return;
    const { line } = button.dataset;
    const on = button.getAttribute("aria-pressed") !== "true";
    for (const other of all(`button[data-line="${CSS.escape(line)}"]`)) other.setAttribute("aria-pressed", String(on));
    all("#sweep [data-drawn]").forEach(draw);
  });
  const chosen = (trace) => document.querySelector(`button[data-line="${CSS.escape(trace.name)}"][aria-pressed=true]`);
  const coloured = (trace) => (trace.meta && chosen(trace) ? { ...trace, showlegend: true, line: { color: trace.meta, width: 3 } } : trace);
  const paper = matchMedia("print");
  const SHEET = 690; // A4 within its margins
  function draw(node) {
    const figure = json(node.dataset.figure);
    const css = style();
    // A sheet is narrower than most screens, its charts are lower, and nothing tells them so.
    const width = paper.matches ? Math.min(node.clientWidth, SHEET) : 0;
    const small = (width || node.clientWidth) < 520;
    const layout = { ...figure.layout, ...(small ? figure.narrow || {} : {}), ...(width ? { width, height: node.clientHeight } : {}) };
    const data = small && figure.traces ? figure.data.map((trace, n) => ({ ...trace, ...figure.traces[n] })) : figure.data;
    return window.Plotly.react(node, paint(data.map(coloured), css), paint(layout, css), config).then(() => {
      if (!node.dataset.drawn) node.on("plotly_click", follow);
      node.dataset.drawn = "yes";
    });
  }
  // Draws one chart after the other while the page is idle: each takes some ten milliseconds.
  const queue = [];
  let drawing = false;
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

  // The library takes longer to start than all the rest: it comes after the first picture,
  // when the browser has nothing else to do, and never before what the reader does.
  function start() {
    if (window.Plotly) return enqueue();
    return load("plotly").then(() => idle(() => enqueue()), (error) => {
      for (const node of all("[data-figure]")) node.textContent = _("This chart needs {file}; its numbers are in the table below.", { file: error.message });
    });
  }
  const figures = all("[data-figure]");
  if (figures.length) {
    document.addEventListener("toggle", (event) => event.target.open && enqueue(event.target), true);
    document.addEventListener("shown", (event) => enqueue(event.target));
    // Paper is always light, so printing repaints as well; and all of it is printed.
    document.addEventListener("theme", () => all("[data-drawn]").forEach(draw));
    for (const query of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(query).addEventListener("change", () => all("[data-drawn]").forEach(draw));
    }
    addEventListener("beforeprint", () => {
      if (!window.Plotly) return;
      for (const node of figures) if (!node.dataset.drawn && !out(node)) draw(node);
    });
    requestAnimationFrame(() => setTimeout(() => idle(start), 0));
  }
})();
