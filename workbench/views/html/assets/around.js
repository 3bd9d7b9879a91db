// The way around a site: search, switchers, keys, theme, copies and downloads. What pages there
// are is read from site.js, beside the index, when somebody asks for it. Every page reads without.
"use strict";
(() => {
  const { _, all, part: make, button: press, remember: memory } = window.workbench;
  const { twin } = window.workbenchLanguage || { twin: "" };
  const button = (text, label, act) => {
    const node = press(text, act);
    if (label) node.ariaLabel = label;
    return node;
  };
  // A page that stands alone has no stylesheet beside it, and nothing to lead to.
  const sheet = document.querySelector("link[rel=stylesheet]");
  const root = sheet && sheet.getAttribute("href").replace(/assets\/.*$/, "");
  const listing = (folder) => new Promise((done, failed) => {
    const onerror = () => failed(new Error(_("site.js is missing next to the index")));
    document.head.append(make("script", "", { src: `${folder}site.js`, onload: () => done(window.workbenchSite), onerror }));
  });
  let asked = null;
  const site = () => (asked ||= listing(root));

  // A panel over the page: a menu, the search, the keys.
  function panel(title, ...content) {
    for (const old of all(".menu")) old.remove();
    const node = make("div", "", { className: "menu", popover: "auto", role: "dialog", ariaLabel: title });
    node.append(make("h2", title), ...content);
    document.body.append(node);
    node.showPopover();
    const first = node.querySelector("input, select, a, button");
    if (first) first.focus();
    return node;
  }
  const hold = (name, ...nodes) => {
    const node = make(name);
    node.append(...nodes);
    return node;
  };
  const links = (items) => hold("ul", ...items.map(([text, href, here]) => hold("li", make("a", text, { href, ariaCurrent: here ? "page" : null }))));
  const command = (text) => hold("p", make("code", text), " ", copier(text));

  function copy(what, from) {
    const said = from.textContent;
    const done = () => {
      from.textContent = _("Copied");
      setTimeout(() => { from.textContent = said; }, 1200);
    };
    const to = navigator.clipboard;
    if (to) (what.then ? to.write([new ClipboardItem({ "image/png": what })]) : to.writeText(what)).then(done, () => {});
  }
  const card = document.querySelector("meta[property='og:image']");
  const picture = () => new Promise((done) => {
    const image = new Image();
    image.onload = () => {
      const canvas = make("canvas", "", { width: image.width, height: image.height });
      canvas.getContext("2d").drawImage(image, 0, 0);
      canvas.toBlob(done);
    };
    image.src = card.content;
  });
  const copier = (text, said = _("Copy")) => button(said, "", (event) => copy(typeof text === "string" ? text : text(), event.target));
  const cells = (row) => all("th, td", row).map((cell) => cell.innerText.replace(/\s*#?\s*\n\s*/g, " ").trim());
  const rows = (table) => Array.from(table.rows).filter((row) => row.getClientRects().length || row.parentElement.tagName === "THEAD").map(cells);
  const csv = (table) => rows(table).map((row) => row.map((text) => (/[",\n]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text)).join(",")).join("\r\n");
  const markdown = (table) => rows(table).map((row, n) => `| ${row.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |${n ? "" : `\n|${" --- |".repeat(row.length)}`}`).join("\n");
  const tables = all("table.tbl").filter((table) => table.rows.length > 2);
  for (const table of tables) {
    const bar = make("div", "", { className: "copies" });
    bar.append(copier(() => csv(table), _("Copy CSV")), copier(() => markdown(table), _("Copy Markdown")));
    for (const each of bar.children) each.tabIndex = -1; // by keys all tables are at hand under Data
    (table.closest(".scroll") || table).after(bar);
  }
  for (const code of all("pre.cmd")) code.after(copier(() => code.textContent));
  function save(name, kind, text) {
    const link = make("a", "", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  const named = (table) => {
    const box = table.closest("[aria-label]");
    return box ? box.getAttribute("aria-label") : table.caption ? table.caption.textContent : _("table");
  };
  function download() {
    const name = document.title.replace(/[^\w.-]+/g, "-");
    const page = () => JSON.stringify({ title: document.title, tables: tables.map((table) => ({ title: named(table), rows: rows(table) })) }, null, 1);
    panel(
      _("This page"),
      button(_("Tables as JSON"), "", () => save(`${name}.json`, "application/json", page())), " ",
      button(_("Tables as CSV"), "", () => save(`${name}.csv`, "text/csv", tables.map((table) => `${named(table)}\r\n${csv(table)}`).join("\r\n\r\n"))), " ",
      copier(() => tables.map((table) => `**${named(table)}**\n\n${markdown(table)}`).join("\n\n"), _("Copy Markdown")), " ",
      copier(() => location.href, _("Copy link")),
    );
  }

  // A recorded text at its commit and line of the repository's web page; none of a changed one.
  const { web, commits } = window.workbenchCommits || { commits: {} };
  const committed = new Map(Object.entries(commits).flatMap(([commit, texts]) => Object.entries(texts).map(([name, path]) => [name, { commit, path }])));
  for (const box of all("[data-contents]")) {
    const sides = box.dataset.contents.split(" ").map((name, side) => [committed.get(name), side ? "" : "old-"]).filter(([known]) => known);
    const line = (side) => box.querySelector(`.mod .n a[href^="#${side}"]${side ? "" : ":not([href^='#old-'])"}`);
    const place = box.querySelector(":scope > header p") || make("p", "", { className: "note pad" });
    sides.forEach(([{ commit, path }, side]) => {
      const first = line(side);
      const n = first ? first.textContent : "1";
      const file = make("a", `${path.split("/").pop()}:${n}`, { href: `${web}blob/${commit}/${encodeURI(path)}#L${n}`, title: path });
      if (!first) box.addEventListener("click", ({ target }) => target.closest("tr[id]") && (file.hash = `#L${target.closest("tr").id.match(/\d+$/)[0]}`));
      place.append(place.firstChild ? " · " : "", file, " @ ", make("a", commit.slice(0, 8), { href: `${web}commit/${commit}`, title: _("The commit of {file}", { file: path }) }));
    });
    if (sides.length && !place.parentElement) box.querySelector("summary").after(place);
  }

  const THEMES = { "": _("Theme: system"), dark: _("Theme: dark"), light: _("Theme: light") };
  function theme(name) {
    document.documentElement.style.colorScheme = name;
    document.dispatchEvent(new Event("theme"));
    return name;
  }
  let chosen = theme(memory("workbench-theme"));

  // From this page to the same of another study, device, problem or version.
  const here = /(?:^|\/)(studies\/[^/]+\/[^/]+\/[^/]+)\/([^/]*)$/.exec(decodeURI(location.pathname));
  const pages = (ladder) => [...ladder.r.flatMap(([, page, step]) => [page, step]), ...ladder.x];
  const same = (ladder) => `${root}${ladder.f}/${pages(ladder).includes(here[2]) ? here[2] : "index.html"}`;
  const unique = (items, key) => items.filter((item, n) => items.findIndex((other) => key(other) === key(item)) === n);
  const ways = {
    study: (map) => map.studies.map((study) => [`${study.n}: ${study.t}`, `${root}${study.h}`, here && here[1].startsWith(study.h.replace(/index\.html$/, ""))]),
    device: (map, own) => map.ladders.filter((each) => each.s === own.s && each.p === own.p).map((each) => [each.d, same(each), each === own]),
    problem: (map, own) => map.ladders.filter((each) => each.s === own.s && each.d === own.d).map((each) => [each.p, same(each), each === own]),
    version: (map, own) => own.r.map(([id, page, step]) => {
      const target = here[2].includes("..") && step ? step : page;
      return [`${id}  ${map.titles[own.s][id] || ""}`, target ? `${root}${own.f}/${target}` : `${root}${own.f}/index.html#${id}`, target === here[2]];
    }),
  };
  const KINDS = { study: _("study"), device: _("device"), problem: _("problem"), version: _("version") };
  const failed = (error) => panel(_("Not here"), make("p", error.message));
  const own = (map) => map.ladders.find((ladder) => here && ladder.f === here[1]);
  const crumbs = document.querySelector(".crumbs ol");
  if (root !== null && crumbs && /(^|\/)studies\//.test(location.pathname)) {
    const bar = make("span", "", { className: "ways-to" });
    for (const kind of here ? Object.keys(ways) : ["study"]) {
      const name = KINDS[kind];
      bar.append(button(`${name} ▾`, _("Switch {kind}", { kind: name }), () => site().then((map) => panel(_("Another {kind}", { kind: name }), links(ways[kind](map, own(map)))), failed)));
    }
    crumbs.after(bar);
  }

  function compare() {
    site().then((map) => {
      const mine = own(map);
      const near = map.ladders.filter((each) => each.s === mine.s);
      const sides = [_("Old"), _("New")].map((label, side) => {
        const select = make("select", "", { ariaLabel: label });
        for (const each of near) {
          for (const [id, page] of each.r.filter((row) => row[1])) {
            select.append(make("option", `${id} · ${each.d} · ${each.p}`, { value: `${near.indexOf(each)} ${id} ${page}` }));
          }
        }
        const first = all("option", select).filter((option) => near[parseInt(option.value, 10)] === mine);
        if (first.length) first[side ? first.length - 1 : 0].selected = true;
        return select;
      });
      const said = make("div", "");
      const tell = () => {
        const [[a, old], [b, fresh]] = sides.map((select) => select.value.split(" ")).map(([n, id]) => [near[Number(n)], id]);
        const across = a.d !== b.d;
        const label = (each, id) => (across ? `${id}@${each.g}` : id);
        const page = b.x.find((name) => name === `${label(a, old)}..${label(b, fresh)}.html`) || pages(b).find((name) => name === `${old}..${fresh}.html`);
        said.replaceChildren();
        if (a.p !== b.p) said.append(make("p", _("Different problems are different jobs and cannot be compared. Choose one problem.")));
        else if (a === b && old === fresh) said.append(make("p", _("Choose two.")));
        else if (page && (!across || page.includes("@"))) said.append(links([[`${label(a, old)} → ${label(b, fresh)}`, `${root}${b.f}/${page}`]]));
        else said.append(make("p", _("No page compares these two yet. Write it with")), command(`workbench report ${b.s}/${label(a, old)}..${label(b, fresh)}`));
      };
      for (const select of sides) select.onchange = tell;
      panel(_("Compare any two"), ...sides, said);
      tell();
    }).catch(failed);
  }
  for (const place of all("[data-compare]")) place.append(button(_("Compare any two"), "", compare));

  function entries(map) {
    const mine = here ? here[1] : "";
    const ladders = [...map.ladders].sort((a, b) => (b.f === mine) - (a.f === mine));
    const nearest = unique(ladders, (each) => each.s);
    const versions = nearest.flatMap((each) => each.r.map(([id, page]) => [`${each.s}/${id}  ${map.titles[each.s][id] || ""}`, `${each.f}/${page || `index.html#${id}`}`]));
    return [
      ...map.studies.map((study) => [`${study.n}: ${study.t}`, study.h]),
      ...versions,
      ...ladders.flatMap((each) => each.r.filter(([, , step]) => step).map(([, , step]) => [`${each.s} ${step.replace(/\.html$/, "").replace("..", " → ")} · ${each.d} · ${each.p}`, `${each.f}/${step}`])),
      ...map.ladders.map((each) => [`${each.s} · ${each.d} · ${each.p}`, `${each.f}/index.html`]),
      ...map.files,
      ...map.counters.map(([id, title]) => [_("{name} (counter)", { name: title }), `glossary.html#${id}`]),
      ...nearest.flatMap((each) => each.k.map(([kernel, page]) => [_("{name} (kernel of {study})", { name: kernel, study: each.s }), `${each.f}/${page}`])),
      ...nearest.flatMap((each) => each.k.filter(([, , file]) => file).map(([, page, file]) => [file, `${each.f}/${page}#L`])),
    ];
  }
  function search() {
    site().then((map) => {
      const known = entries(map).map(([text, href]) => [text, `${root}${href}`]);
      const input = make("input", "", { type: "search", placeholder: _("Study, step, counter, kernel, file:line"), ariaLabel: _("Search") });
      const found = make("div", "", { ariaLive: "polite" });
      const tell = () => {
        const [typed, line] = /^(.*?)(?::(\d+))?$/.exec(input.value.toLowerCase()).slice(1);
        const words = typed.split(/\s+/).filter(Boolean);
        const hits = known.filter(([text]) => words.every((word) => text.toLowerCase().includes(word)));
        const at = ([text, href]) => (href.endsWith("#L") ? [`${text}:${line || 1}`, `${href}${line || 1}`] : [text, href]);
        found.replaceChildren(hits.length ? links(hits.slice(0, 12).map(at)) : make("p", _("No match.")));
      };
      input.oninput = tell;
      input.onkeydown = (event) => {
        const first = found.querySelector("a");
        if (event.key === "Enter" && first) first.click();
      };
      tell();
      panel(_("Search"), input, found);
    }).catch(failed);
  }

  const KEYS = [["/", _("search")], ["j k", _("next and previous section")], ["n p", _("next and previous step or version")], ["h", _("next hot line")], ["?", _("these keys")]];
  function help() {
    panel(_("Keys"), hold("ul", ...KEYS.map(([key, what]) => hold("li", make("kbd", key), ` ${what}`))));
  }
  function section(step) {
    const heads = all("h1, main h2[id], main h3[id]").filter((head) => head.getClientRects().length);
    const at = heads.map((head) => head.getBoundingClientRect().top - 60);
    const next = step > 0 ? heads.find((_, n) => at[n] > 4) : heads.filter((_, n) => at[n] < -12).pop();
    if (next) next.scrollIntoView();
  }
  const neighbour = (mark) => {
    const link = all(".steps a").find((each) => each.textContent.includes(mark));
    if (link && link.href) link.click();
  };
  let heated = 0;
  function hot() {
    const every = all("[data-next]").filter((node) => node.getClientRects().length);
    const next = every.find((node) => node.getBoundingClientRect().bottom > 60) || every[0];
    // A step has bars beside changed lines and no button: the widest first, then the next one.
    const lines = all(".hunk .v i").sort((a, b) => parseFloat(b.style.width) - parseFloat(a.style.width));
    if (!next && lines.length) return lines[heated++ % lines.length].scrollIntoView({ block: "center" });
    if (!next) return;
    next.scrollIntoView({ block: "nearest" });
    next.click();
  }
  const acts = { "/": () => root !== null && search(), "?": help, j: () => section(1), k: () => section(-1), n: () => neighbour("›"), p: () => neighbour("‹"), h: hot };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=radio]), select, textarea, .menu")) return;
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  // The same page in the other language.
  function other() {
    const depth = root.split("../").length;
    const path = decodeURI(location.pathname).split("/").slice(-depth).join("/").replace(/(^|\/)$/, "$1index.html");
    const link = make("a", document.documentElement.lang === "en" ? "中文" : "English", { href: `${root}${twin}${path}${location.hash}` });
    link.lang = link.hreflang = document.documentElement.lang === "en" ? "zh-CN" : "en";
    const has = ({ ladders, studies, files }) => !path.includes("/")
      || studies.some((each) => each.h === path)
      || ladders.some((each) => ["index.html", ...pages(each)].some((page) => `${each.f}/${page}` === path))
      || files.some(([, href]) => href.replace(/[^/]*$/, "") === path.replace(/[^/]*$/, ""));
    link.onclick = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      // Which pages there are, the other index knows; a page that is not there is its index.
      const go = (there) => location.assign(there ? `${root}${twin}${path}${location.hash}` : `${root}${twin}index.html`);
      listing(`${root}${twin}`).then((theirs) => go(has(theirs)), () => go(false));
      asked = null;
    };
    return link;
  }

  const tools = make("div", "", { className: "tools" });
  if (root !== null && twin) tools.append(other());
  if (root !== null) tools.append(button(_("Search /"), _("Search"), search));
  // From a disk no page may read the picture beside it.
  if (root !== null && card) tools.append(button(_("Card"), _("Copy this page’s card"), (event) => (location.protocol === "file:" ? location.assign(card.content) : copy(picture(), event.target))));
  tools.append(button(_("Data"), _("Data and link of this page"), download), button(THEMES[chosen], "", (event) => {
    const names = Object.keys(THEMES);
    chosen = theme(names[(names.indexOf(chosen) + 1) % names.length]);
    memory("workbench-theme", chosen);
    event.target.textContent = THEMES[chosen];
  }), button("?", _("Keys"), help));
  document.querySelector("main").prepend(tools);
})();
