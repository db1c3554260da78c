// One button shows the code of all pages, and what a keyboard and a screen reader need of things that scroll sideways.
// Without this script each cell still opens by its own button (a details element).
(function () {
  const key = "classwise-code";
  const stored = () => { try { return localStorage.getItem(key); } catch (error) { return null; } };
  const store = (value) => { try { localStorage.setItem(key, value); } catch (error) { /* a page from file:// may have no storage */ } };

  function folded() {
    // Solutions of exercises (hide-cell) keep buttons of their own.
    const codes = [...document.querySelectorAll("article .cell:not(.tag_hide-cell) > details.above-input")];
    if (!codes.length) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "code-switch";
    const show = (open) => {
      button.textContent = open ? "Hide code" : "Show code";
      button.setAttribute("aria-pressed", String(open));
      document.documentElement.dataset.code = open ? "shown" : "folded";
      for (const code of codes) code.open = open;
    };
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-pressed") !== "true";
      show(open);
      store(open ? "shown" : "folded");
    });
    show(stored() === "shown");
    const bar = document.querySelector(".scale-switch");
    const row = document.createElement("div");
    row.className = "page-switches";
    const place = bar || document.querySelector("article h1");
    if (!place) return;
    place.after(row);
    if (bar) row.append(bar);
    row.append(button);
  }

  // Tables, charts and code that are wider than their place: reachable by keyboard, named, and with a cue.
  const WIDE = "table.dataframe, .pst-scrollable-table-container, article div.highlight > pre, .vega-embed, .docutils.math";
  function wide() {
    for (const node of document.querySelectorAll(WIDE)) {
      const scrolls = node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1;
      if (scrolls === node.hasAttribute("data-scrolls")) continue;
      node.toggleAttribute("data-scrolls", scrolls);
      if (scrolls) node.tabIndex = 0; else node.removeAttribute("tabindex");
      const cue = node.previousElementSibling && node.previousElementSibling.matches(".scroll-cue") ? node.previousElementSibling : null;
      if (scrolls && !cue && !node.matches("pre")) {
        const words = document.createElement("p");
        words.className = "scroll-cue";
        words.textContent = "scroll sideways →";
        node.before(words);
      } else if (!scrolls && cue) cue.remove();
    }
  }

  // On a phone the rows of a table of words are cards (book.css), where each cell says which column it is of.
  function cards() {
    for (const table of document.querySelectorAll("article table.table")) {
      const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
      if (heads.length < 3) continue;
      table.classList.add("cards");
      for (const row of table.querySelectorAll("tbody tr")) {
        [...row.cells].forEach((cell, place) => { if (heads[place]) cell.dataset.head = heads[place]; });
      }
    }
  }

  // pandas writes what rows are into a head row of its own, below that of the columns.
  function heads() {
    const words = (cell) => cell.textContent.trim();
    for (const {tHead, tBodies} of document.querySelectorAll("table.dataframe:has(> thead)")) {
      const [columns, rows] = [...tHead.rows].slice(-2), named = tBodies[0].querySelectorAll("tr:first-child > th").length;
      if (!rows || rows.cells.length !== columns.cells.length || [...rows.cells].slice(named).some(words)) continue;
      [...rows.cells].slice(0, named).forEach((cell, place) => {
        const above = columns.cells[place];
        above.textContent = [words(cell), words(above)].filter(Boolean).join(" \\ ");
      });
      rows.remove();
    }
  }

  // A minus before a number is one, as in charts.
  function minus() {
    const words = document.createTreeWalker(document.querySelector("article") || document.body, NodeFilter.SHOW_TEXT);
    for (let node = words.nextNode(); node; node = words.nextNode()) {
      if (!/-\.?\d/.test(node.data) || node.parentElement.closest("pre, code, script, style, .math, .vega-embed")) continue;
      node.data = node.data.replace(node.previousSibling ? /([\s([])-(?=\.?\d)/g : /(^|[\s([])-(?=\.?\d)/g, "$1\u2212");
    }
  }

  function roles() {
    // Sphinx gives the bibliography a role whose children must be list items, which they are not.
    for (const list of document.querySelectorAll(".citation-list[role=list]")) list.removeAttribute("role");
    for (const item of document.querySelectorAll("[role=doc-biblioentry]")) item.removeAttribute("role");
    for (const head of document.querySelectorAll("table.dataframe thead th:empty")) head.replaceWith(Object.assign(document.createElement("td"), {colSpan: head.colSpan, rowSpan: head.rowSpan}));
    const side = document.querySelector(".bd-sidebar-primary");
    if (side) { side.setAttribute("role", "complementary"); side.setAttribute("aria-label", "The book"); }
  }

  // Paper is white: a dark page is light while it is printed.
  function printing() {
    const page = document.documentElement, paper = matchMedia("print");
    let theme = null;
    const change = (on) => {
      page.toggleAttribute("data-printing", on);
      if (on && page.dataset.theme === "dark") { theme = "dark"; page.dataset.theme = "light"; }
      if (!on && theme) { page.dataset.theme = theme; theme = null; }
    };
    addEventListener("beforeprint", () => change(true));
    addEventListener("afterprint", () => change(false));
    paper.addEventListener("change", () => change(paper.matches));
    change(paper.matches);
  }

  function start() {
    printing();
    folded();
    heads();
    minus();
    cards();
    roles();
    wide();
    let waiting = 0;
    const later = () => { clearTimeout(waiting); waiting = setTimeout(wide, 150); };
    addEventListener("resize", later);
    document.addEventListener("classwise-drawn", later);
    document.addEventListener("click", later);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
