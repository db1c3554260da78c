// Draws Altair's charts as SVG on a transparent background, and again, with the reader's choices, when the theme of the page
// changes, when it is printed, or when a narrow screen has another width. The theme is "auto" until the script of the page has run.
(function () {
  const embed = window.vegaEmbed, charts = [], night = matchMedia("(prefers-color-scheme: dark)"), paper = matchMedia("print");
  const narrow = matchMedia("(max-width: 600px)"), NARROWEST = 110, MARGIN = 110, PADDING = 14, FRAME = 10, ATTEMPTS = 9;
  const loaded = new Promise((done) => document.readyState === "loading" ? addEventListener("DOMContentLoaded", done) : done());
  const WIDEST = 900, FULL = 0.95, MOST = 5, BESIDE = 7, SMALL = {labelFontSize: 11, titleFontSize: 12};
  const inks = {
    light: {text: {color: "#222"}},
    dark: {text: {color: "#eee"}, axis: {gridColor: "#333"}, view: {stroke: "#444"}},
  };
  const printing = () => paper.matches || "printing" in document.documentElement.dataset;  // page.js sets it
  const scheme = () => {
    const theme = printing() ? "light" : document.documentElement.dataset.theme;
    return theme === "dark" || theme === "light" ? theme : night.matches ? "dark" : "light";
  };
  const look = (options, name) => ({...options, actions: false, renderer: "svg", tooltip, theme: name === "dark" ? "dark" : undefined,
    config: {...(options || {}).config, background: "transparent", ...inks[name]}});
  // What stands out on a white page does not on a dark one: colours of charts/style.py, and what takes their place.
  const lighter = {
    "#007a2f": "#009140", "#035dd0": "#8b62f2", "#127757": "#458c64", "#2ca2ac": "#74c3be", "#3152dd": "#7c74ff", "#42a08d": "#6bd3b7",
    "#656510": "#84812e", "#8283ff": "#8ca1ff", "#9a407b": "#996da4", "#a05e68": "#a37388", "#b183b9": "#e0b1dc", "#b675ff": "#ff8aff",
    "#b68f05": "#ffad29", "#b7008a": "#ea00ab", "#c38908": "#ecba31", "#d50016": "#f83700", "#e05a00": "#f39400", "#ff4479": "#ff6685",
    "#ff4f8a": "#ff7f94",
    // The scales of cells and the inks of their numbers, turned around.
    "#fffaf3": "#20262e", "#fff7ec": "#20262e", "#fdbb84": "#7b2a1c", "#7f0000": "#ffd2b0", "#c7e0ee": "#1f4666", "#08306b": "#c6e4fb",
    "#000000": "#ffffff", "#ffffff": "#000000",
  };
  const dim = new RegExp(Object.keys(lighter).join("|"), "g");
  const lit = (spec) => JSON.parse(JSON.stringify(spec).replace(dim, (colour) => lighter[colour]));
  // Lines of words that are at most so many pixels long.
  const ruler = document.createElement("canvas").getContext("2d");
  function wrapped(text, room, size, weight = "normal") {
    if (typeof text !== "string" && !Array.isArray(text)) return text;
    ruler.font = `${weight} ${size}px sans-serif`;
    const lines = [""];
    for (const word of [].concat(text).join(" ").split(" ")) {
      const line = lines.pop(), longer = line ? line + " " + word : word;
      if (line && ruler.measureText(longer).width > room) lines.push(line, word); else lines.push(longer);
    }
    return lines;
  }
  function title(given, room) {
    const {text, subtitle, ...rest} = given.text ? given : {text: given};
    const folded = (some) => wrapped(some, room, rest.fontSize || 13, rest.fontWeight || "bold");
    // A title that follows a control is an expression that picks one of several.
    const several = ({expr}) => {
      const end = expr.lastIndexOf(")"), titles = Object.entries(JSON.parse(expr.slice(1, end)));
      return {expr: `(${JSON.stringify(Object.fromEntries(titles.map(([one, lines]) => [one, folded(lines)])))})${expr.slice(end + 1)}`};
    };
    const lines = {text: text.expr ? several(text) : folded(text)};
    return {...rest, frame: "bounds", ...lines, ...(subtitle ? {subtitle: wrapped(subtitle, room, 12)} : {})};
  }
  // A Vega expression that breaks a label, or what another expression makes of it, into lines of at most so many letters.
  const broken = (letters, {labelExpr: label = "datum.label"}) =>
    `split(trim(replace(${label}, regexp('(.{1,${letters}})(-| |$)', 'g'), '$1$2\\n')), '\\n')`;
  const NAMES = 18, LETTER = 6.5;
  function channel(name, one, fit) {
    if (!one || typeof one !== "object" || Array.isArray(one)) return one;
    const result = {...one}, places = ["nominal", "ordinal"].includes(one.type);
    if (result.title) result.title = wrapped(result.title, name === "y" ? 150 : fit.room, 12);
    if (name === "y" && places && one.axis !== null) result.axis = {...one.axis, labelExpr: broken(NAMES, one.axis || {})};
    if (name === "text" && fit.digits === "whole" && one.format) result.format = one.format.replace(/\.\d/, ".0");
    return result;
  }
  const GAP = 6;
  // Images of a row stand below each other, and shrink where that is still too wide, so that what is written under them has room.
  function turned(spec, room) {
    const {width: side} = spec.layer.map((one) => one.mark).find((mark) => mark.type === "image");
    const {x, y} = spec.layer[0].encoding, lines = y.sort.length, columns = Math.round(spec.width / (side + 26));
    const small = Math.min(side, Math.floor(room / lines) - GAP), less = side - small;
    const above = {...y.axis, orient: "top", labelAngle: 0, labelExpr: broken(Math.floor(room / lines / LETTER), y.axis || {})};
    const axis = y.axis === null ? null : above, {title: _, ...rows} = x;
    const sized = (mark) => ({
      image: {width: small, height: small}, point: {size: (small + 2) ** 2}, text: {dy: mark.dy - less / 2},
    })[mark.type];
    const layer = spec.layer.map(({mark, encoding, ...one}) => ({
      ...one, mark: {...mark, ...sized(mark)}, encoding: {...encoding, x: {...y, axis}, y: {...rows, axis: null}},
    }));
    return {...spec, layer, width: room, height: columns * (spec.height / lines - less)};
  }
  const kind = (view) => view.mark && (view.mark.type || view.mark);
  // On a phone panels stand in one column, as wide as the screen, legends above them, and words in several lines.
  function column(spec, fit) {
    let result = {...spec};
    if (result.hconcat) { result.vconcat = result.hconcat; delete result.hconcat; }
    if (result.columns || result.concat) Object.assign(result, {columns: 1, spacing: 24});
    if (result.facet && result.facet.column && !result.facet.row) Object.assign(result, {facet: result.facet.column, columns: 1});
    // Each panel of a column has the axis that those of a row share.
    if (result.facet && result.columns === 1) result.resolve = {...result.resolve, axis: {x: "independent", ...(result.resolve || {}).axis}};
    const header = (result.facet || {}).header;
    if (header) result.facet = {...result.facet, header: {...header, labelExpr: broken(Math.floor(fit.room / LETTER), header)}};
    if (result.layer && result.layer.some((one) => kind(one) === "rect") && fit.digits === "none") {
      result.layer = result.layer.filter((one) => kind(one) !== "text");
    }
    for (const name of ["vconcat", "concat", "layer"]) if (result[name]) result[name] = result[name].map((one) => column(one, fit));
    if (result.spec) result.spec = column(result.spec, fit);
    if (result.encoding) {
      const channels = Object.entries(result.encoding).map(([name, one]) => [name, channel(name, one, fit)]);
      result.encoding = Object.fromEntries(channels);
    }
    if (result.layer && result.layer.some((one) => kind(one) === "image")) result = turned(result, fit.width - FRAME);
    else if (result.width > fit.room) result.width = fit.room;
    if (result.title) result.title = title(result.title, fit.width);
    return result;
  }
  // On a wide screen plots are so many times as wide as they were made; images keep their size.
  function widened(spec, times) {
    const parts = ["hconcat", "vconcat", "concat", "layer"].filter((name) => spec[name]);
    if ((spec.layer || [spec]).some((one) => kind(one) === "image")) return spec;
    const inner = Object.fromEntries(parts.map((name) => [name, spec[name].map((one) => widened(one, times))]));
    const width = typeof spec.width === "number" ? {width: Math.round(spec.width * times)} : {};
    return {...spec, ...inner, ...width, ...(spec.spec ? {spec: widened(spec.spec, times)} : {})};
  }
  // Axes and legends do not grow with the plots, so that this comes near the room from below; the last number of a longer axis may
  // stand out by a few pixels more, for which it leaves room.
  function wider(place, {times}) {
    const drawn = place.querySelector("svg").viewBox.baseVal.width, room = Math.min(WIDEST, place.clientWidth);
    return room && drawn < room * FULL && times < MOST ? {times: times * (room - 4) / drawn} : null;
  }
  function fitted(chart, fit) {
    const spec = scheme() === "dark" ? lit(chart.spec) : structuredClone(chart.spec);
    if (fit.times) return widened(spec, fit.times);
    const result = column(spec, fit), {axis, header, legend, title: above, ...config} = result.config || {};
    const room = {orient: "top", columns: fit.columns, titleLimit: 0, labelLimit: fit.width - 30};
    Object.assign(config, {title: {...above, fontSize: 13, subtitleFontSize: 12}, axis: {...axis, ...SMALL}});
    result.config = {...config, header: {...header, ...SMALL}, legend: {...legend, ...SMALL, ...room}};
    return result;
  }
  // How wide axes, legends, numbers and names at the ends of lines are is known once they are drawn: returns what fits better, or
  // null where the drawing is as wide as its place and its numbers fit their cells.
  function better(place, fit, spec) {
    const svg = place.querySelector("svg"), drawn = svg.getBoundingClientRect().width, slack = place.clientWidth - drawn;
    if (!place.clientWidth) return null;
    const labels = [...svg.querySelectorAll(".role-legend-label text")].map((one) => one.getBoundingClientRect().width);
    const columns = Math.max(1, Math.min(fit.columns, Math.floor(fit.width / (Math.max(0, ...labels) + 30))));
    if (columns < fit.columns) return {...fit, columns};
    // A legend begins at the plot, not at the edge, and the drawing has a margin of five pixels.
    const legends = [...svg.querySelectorAll(".role-legend")].map((one) => one.getBoundingClientRect().right + 5);
    const beyond = Math.max(0, ...legends) > place.getBoundingClientRect().left + place.clientWidth;
    if (slack < 0 && beyond && fit.columns > 1) return {...fit, columns: fit.columns - 1};
    // Where a narrower plot is of no use, its words are too long.
    if (slack < 0 && fit.wider && drawn > fit.wider.drawn - 1) return {...fit, room: fit.wider.room, wider: null, width: fit.width + 2 * slack};
    const widest = Math.min(fit.room, natural(spec)), room = Math.max(NARROWEST, Math.floor(widest + slack));
    if (slack < 0 && room < widest) return {...fit, room, wider: {drawn, room: fit.room}};
    if (slack > 12 && fit.room < natural(spec) && !fit.wider) return {...fit, room};
    const next = {all: "whole", whole: "none"}[fit.digits];
    return next && crowded(svg) ? {...fit, digits: next} : null;
  }
  const natural = (spec) => Math.max(0, typeof spec.width === "number" ? spec.width : 0,
    ...["hconcat", "vconcat", "concat", "layer"].flatMap((name) => spec[name] || []).concat(spec.spec || []).map(natural));
  const covers = (one, other) => Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&
    Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 4;
  // Whether numbers in cells cover each other.
  function crowded(svg) {
    return [...svg.querySelectorAll(".mark-rect.role-mark ~ .mark-text.role-mark")].some((group) => {
      const boxes = [...group.querySelectorAll("text")].map((one) => one.getBoundingClientRect());
      return boxes.some((one, place) => boxes.slice(0, place).some((other) => covers(one, other)));
    });
  }
  // Words that would cover a dot stand left of theirs or below it, where there is room; those left of theirs, below it. Of words
  // that would cover each other only the first are shown; the tooltips of the others stay.
  const places = {
    start: ({width}) => [[0, 0], [-width - 2 * BESIDE, 0], [-width / 2 - BESIDE, 20]],
    end: () => [[0, 0], [BESIDE, 14]],
  };
  function uncovered(svg) {
    const marks = [...svg.querySelectorAll(".role-mark text")], boxes = new Map(), shown = [];
    for (const one of marks) for (const name of ["dx", "dy"]) one.removeAttribute(name);
    const dots = [...svg.querySelectorAll(".mark-symbol.role-mark path")].map((one) => one.getBoundingClientRect());
    const frame = svg.getBoundingClientRect(), fits = (box) => box.left >= frame.left && box.bottom <= frame.bottom;
    for (const one of svg.querySelectorAll("text")) if (one.textContent.trim()) boxes.set(one, one.getBoundingClientRect());
    for (const [one, box] of boxes) if (!one.closest(".role-mark")) shown.push(box);
    for (const one of marks) {
      let box = boxes.get(one);
      const tried = places[one.getAttribute("text-anchor")];
      if (box && dots.length && tried) {
        const moved = ([dx, dy]) => new DOMRect(box.x + dx, box.y + dy, box.width, box.height);
        const place = tried(box).find((by) => fits(moved(by)) && ![...shown, ...dots].some((other) => covers(moved(by), other)));
        ["dx", "dy"].forEach((name, axis) => place && place[axis] && one.setAttribute(name, place[axis]));
        box = moved(place || [0, 0]);
      }
      const free = !box || !box.width || !shown.some((other) => covers(box, other));
      one.style.visibility = free ? "" : "hidden";
      if (free && box) shown.push(box);
    }
  }
  // Tooltips, and what screen readers say of marks, print attacks and defences as axes do (`printed_name` in core/markup.py).
  const [NAMED, CAPITALS] = window.PRINTED_NAMES, capitals = new RegExp(CAPITALS), ofClasses = /\bclass\b|^(other|partner|attacked)$/;
  function printed(column, name) {
    const part = (one) => Object.hasOwn(NAMED, one) ? NAMED[one] : one.replace(capitals, (found) => found.toUpperCase());
    const each = (one) => one.replace(/^.*?(?= \(|$)/, part);
    return ofClasses.test(column) ? String(name) : String(name).split(", ").map(each).join(", ");
  }
  const tooltip = {formatTooltip: (value, sanitize) => {
    const row = ([key, one]) => `<tr><td class="key">${sanitize(key)}</td><td class="value">${sanitize(printed(key, one))}</td></tr>`;
    return typeof value === "object" ? `<table>${Object.entries(value).map(row).join("")}</table>` : sanitize(value);
  }};
  function spoken(svg) {
    for (const mark of svg.querySelectorAll(".role-mark [aria-label]")) {
      const said = mark.getAttribute("aria-label"), now = said.replace(/([^;:]+): ([^;]+)/g, (_, column, one) => `${column}: ${printed(column.trim(), one)}`);
      if (now !== said) mark.setAttribute("aria-label", now);
    }
  }
  // A chart that is hidden has no width: it is drawn for that of the page, and for its place once it is shown.
  const hidden = (chart) => !element(chart).clientWidth;
  const width = (chart) => element(chart).clientWidth || document.documentElement.clientWidth - 48;
  const state = (chart) => `${scheme()} ${narrow.matches ? element(chart).clientWidth : Math.min(WIDEST, element(chart).clientWidth)}`;
  // What a reader chose: the values of controls, and the marks picked in legends, which Vega-Lite keeps in a data set.
  const named = (chart, wanted) => (chart.spec.params || []).filter(wanted).map((param) => param.name);
  const bound = (chart) => named(chart, (param) => param.bind && !param.select);
  const stores = (chart) => named(chart, (param) => param.select).map((name) => `${name}_store`);
  function choices(chart) {
    if (!chart.result) return linked(chart);
    const {view} = chart.result;
    // Vega adds functions to what it stores.
    const picked = stores(chart).map((store) => [store, JSON.parse(JSON.stringify(view.data(store)))]);
    return {signals: bound(chart).map((name) => [name, view.signal(name)]), picked: picked.filter(([, rows]) => rows.length)};
  }
  function choose(view, {signals, picked}) {
    for (const [name, value] of signals) view.signal(name, value);
    for (const [store, rows] of picked) view.data(store, rows);
    return view.runAsync();
  }
  async function draw(chart) {
    if (chart.busy) return;  // it looks again when it is done
    if (printing() && element(chart).querySelector("image") || narrow.matches && hidden(chart) && chart.result) return;
    chart.busy = true;
    try {
      for (let turn = 0; turn < ATTEMPTS && chart.state !== state(chart); turn++) await drawn(chart);
    } finally {
      chart.busy = false;
    }
    document.dispatchEvent(new Event("classwise-drawn"));
  }
  async function drawn(chart) {
    const first = !chart.result, kept = choices(chart), wanted = state(chart), place = width(chart);
    let fit = narrow.matches ? {width: place - PADDING, room: place - MARGIN, columns: 4, digits: "all"} : {times: 1};
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (chart.result) chart.result.finalize();
      chart.result = await embed(chart.place, fitted(chart, fit), look(chart.options, scheme()));
      local(element(chart));
      const next = fit.times ? wider(element(chart), fit) : better(element(chart), fit, chart.spec);
      if (!next) break;
      fit = next;
    }
    await choose(chart.result.view, kept);
    reachable(element(chart));
    watch(chart);
    loaded.then(() => share(element(chart).closest("figure")));  // its caption stands below it
    if (first && kept.signals.length) element(chart).scrollIntoView();
    chart.state = wanted;  // only now: a drawing that failed is tried again
  }
  // Words are compared again when a choice has moved them.
  function watch(chart) {
    const svg = element(chart).querySelector("svg");
    const renew = () => { uncovered(svg); spoken(svg); };
    let waiting = 0;
    renew();
    const moved = new MutationObserver(() => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(renew); });
    moved.observe(svg, {subtree: true, childList: true, characterData: true, attributeFilter: ["transform", "aria-label"]});
  }
  const element = (chart) => typeof chart.place === "string" ? document.querySelector(chart.place) : chart.place;
  // A link may set controls of a chart by their names, claims.html?ledger_verdict=holds; with a figure, only of its charts.
  function linked(chart) {
    const given = new URLSearchParams(location.search), figure = element(chart).closest("figure"), aim = location.hash.slice(1);
    if (aim.startsWith("fig-") && figure && figure.id !== aim) return {signals: [], picked: []};
    const set = (names, read) => names.filter((name) => given.has(name)).map((name) => [name, read(given.get(name), name)]);
    const numbers = named(chart, (param) => typeof param.value === "number");
    const offers = (name, value) => {
      const {options, min, max} = chart.spec.params.find((param) => param.name === name).bind;
      return options ? options.includes(value) : !(value < min || value > max);
    };
    const signals = set(bound(chart), (text, name) => numbers.includes(name) ? Number(text) : text);
    // The chart of the other dataset has the same controls, but not all of the values.
    const words = JSON.stringify(chart.spec), drawn = ([, rows]) => rows.every(({values}) => values.every((one) => words.includes(one)));
    return {
      signals: signals.filter(([name, value]) => offers(name, value)),
      picked: set(stores(chart), (text) => JSON.parse(text)).filter(drawn),
    };
  }
  // A drawing as it is seen, without the words that would cover others: the address of an image of twice its size.
  async function picture(svg, kind) {
    const copy = svg.cloneNode(true), {width, height} = svg.viewBox.baseVal, image = new Image();
    Object.assign(copy.style, {background: getComputedStyle(document.body).backgroundColor, width: "", height: ""});
    for (const [name, value] of Object.entries({width, height})) copy.setAttribute(name, 2 * value);
    const text = new XMLSerializer().serializeToString(copy);
    image.src = URL.createObjectURL(new Blob([text], {type: "image/svg+xml"}));
    if (kind === "svg") return image.src;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), {width: 2 * width, height: 2 * height});
    canvas.getContext("2d").drawImage(image, 0, 0);
    return canvas.toDataURL("image/png");
  }
  // Beside the data of a figure: its charts as images, and a link that opens it with the present choices.
  function share(figure) {
    const place = figure && figure.querySelector(".figure-data");
    if (!place || place.querySelector("button")) return;
    const shown = () => charts.filter((chart) => figure.contains(element(chart)) && chart.result && !hidden(chart));
    const add = (words, act) => {
      const button = Object.assign(document.createElement("button"), {type: "button", textContent: words});
      button.addEventListener("click", () => act(button));
      place.append(" · ", button);
    };
    for (const kind of ["png", "svg"]) add(kind.toUpperCase(), async () => {
      for (const [number, chart] of shown().entries()) {
        const href = await picture(element(chart).querySelector("svg"), kind);
        Object.assign(document.createElement("a"), {href, download: `${figure.id}${number ? `-${number + 1}` : ""}.${kind}`}).click();
      }
    });
    add("Link", async (button) => {
      const query = new URLSearchParams(), {scale} = document.documentElement.dataset;
      if (scale) query.set("scale", scale);
      for (const {signals, picked} of shown().map(choices)) {
        for (const [name, value] of signals) query.set(name, value);
        for (const [name, rows] of picked) query.set(name, JSON.stringify(rows));
      }
      const address = `${location.href.replace(/[?#].*/, "")}?${query}#${figure.id}`;
      try { history.replaceState(null, "", address); } catch (error) { /* a page from file:// may not */ }
      const copied = await navigator.clipboard?.writeText(address).then(() => true, () => false);
      button.textContent = copied ? "Link copied" : "Link is in the address bar";
    });
  }
  // Vega writes the address of the page in front of the name of a gradient, which scales.js may change.
  function local(place) {
    for (const mark of place.querySelectorAll("[fill^='url(']")) mark.setAttribute("fill", mark.getAttribute("fill").replace(/.*#/, "url(#"));
  }
  // What reacts to a click in a legend also reacts to the keyboard; groups of marks that are empty have no role.
  function reachable(place) {
    const silent = (node) => ["role", "aria-roledescription", "aria-label"].forEach((name) => node.removeAttribute(name));
    place.querySelectorAll("g[role=graphics-symbol]:empty, g[role=graphics-object]:empty").forEach(silent);
    for (const label of place.querySelectorAll(".role-legend-label:not([pointer-events=none]) text")) {
      label.tabIndex = 0;
      label.setAttribute("role", "button");
      silent(label.closest(".role-legend"));  // what contains a button is no symbol
      label.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        label.dispatchEvent(new MouseEvent("click", {bubbles: true, view: window, shiftKey: event.shiftKey}));
      });
    }
  }
  window.vegaEmbed = async function (place, spec, options) {
    const chart = {place, spec: structuredClone(spec), options};
    charts.push(chart);
    await draw(chart);
    new ResizeObserver(() => {
      draw(chart);
      const svg = element(chart).querySelector("svg");
      if (svg) uncovered(svg);  // else it is being drawn
    }).observe(element(chart));
    return chart.result;
  };
  const all = () => charts.forEach(draw);
  new MutationObserver(all).observe(document.documentElement, {attributes: true, attributeFilter: ["data-theme"]});
  for (const query of [narrow, paper]) query.addEventListener("change", all);
})();
