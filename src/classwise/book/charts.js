// Draws Altair's charts as SVG on a transparent background, and again, with the reader's choices, when the theme of the page
// changes or a narrow screen becomes wide. The theme is "auto" until the script of the page has run.
(function () {
  const embed = window.vegaEmbed, charts = [], night = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 600px)"), WIDEST = 300, NARROWEST = 150;
  const inks = {
    light: {text: {color: "#222"}},
    dark: {text: {color: "#eee"}, axis: {gridColor: "#333"}, view: {stroke: "#444"}},
  };
  const scheme = () => {
    const theme = document.documentElement.dataset.theme;
    return theme === "dark" || theme === "light" ? theme : night.matches ? "dark" : "light";
  };
  const look = (options, name) => ({...options, actions: false, renderer: "svg", theme: name === "dark" ? "dark" : undefined,
    config: {...(options || {}).config, background: "transparent", ...inks[name]}});
  // What stands out on a white page does not on a dark one: colours of charts/style.py, and what takes their place.
  const lighter = {"#3152dd": "#8aa0ff", "#e05a00": "#ff9a52", "#b7008a": "#ff6fd0"};
  const lit = (spec) => JSON.parse(JSON.stringify(spec).replace(/#(3152dd|e05a00|b7008a)/g, (colour) => lighter[colour]));
  function wrapped(text, most) {
    const lines = [""];
    for (const word of [].concat(text).join(" ").split(" ")) {
      const line = lines.pop();
      if (line && line.length + 1 + word.length > most) lines.push(line, word); else lines.push(line ? line + " " + word : word);
    }
    return lines;
  }
  // On a phone panels stand in one column, as wide as the screen, and legends above them.
  function column(spec, room) {
    const result = {...spec};
    if (result.hconcat) { result.vconcat = result.hconcat; delete result.hconcat; }
    if (result.columns || result.concat) result.columns = 1;
    if (result.facet && result.facet.column && !result.facet.row) { result.facet = result.facet.column; result.columns = 1; }
    for (const name of ["vconcat", "concat"]) if (result[name]) result[name] = result[name].map((one) => column(one, room));
    if (result.spec) result.spec = column(result.spec, room);
    if (typeof result.width === "number" && result.width > room) result.width = room;
    if (result.title && result.title.text) {
      result.title = {...result.title, text: wrapped(result.title.text, 38)};
      if (result.title.subtitle) result.title.subtitle = wrapped(result.title.subtitle, 46);
    }
    return result;
  }
  function fitted(chart, small, dark, less = 0) {
    const spec = dark ? lit(chart.spec) : structuredClone(chart.spec);
    if (!small) return spec;
    const room = Math.max(NARROWEST, Math.min(WIDEST, document.documentElement.clientWidth - 140) - less);
    const result = column(spec, room), config = result.config || {};
    result.config = {...config, legend: {...config.legend, orient: "top", columns: 4}};
    return result;
  }
  const state = () => `${scheme()} ${narrow.matches}`;
  async function draw(chart) {
    if (chart.busy) return;  // it looks again when it is done
    chart.busy = true;
    while (chart.state !== state()) {
      const old = chart.result && chart.result.view;
      const bound = (chart.spec.params || []).filter((param) => param.bind && !param.select).map((param) => param.name);
      const kept = old ? bound.map((name) => [name, old.signal(name)]) : linked(bound);
      if (old) chart.result.finalize();
      chart.state = state();
      const drawn = (less) => embed(chart.place, fitted(chart, narrow.matches, scheme() === "dark", less), look(chart.options, scheme()));
      chart.result = await drawn(0);
      // How wide axes and names at the ends of lines are is known once they are drawn.
      const over = narrow.matches ? element(chart).scrollWidth - element(chart).clientWidth : 0;
      if (over > 0) { chart.result.finalize(); chart.result = await drawn(over + 4); }
      for (const [name, value] of kept) chart.result.view.signal(name, value);
      await chart.result.view.runAsync();
      reachable(element(chart));
      if (!old && kept.length) element(chart).scrollIntoView();
    }
    chart.busy = false;
    document.dispatchEvent(new Event("classwise-drawn"));
  }
  const element = (chart) => typeof chart.place === "string" ? document.querySelector(chart.place) : chart.place;
  // A link may set controls of a chart by their names: claims.html?ledger_verdict=holds.
  function linked(names) {
    const given = new URLSearchParams(location.search);
    return names.filter((name) => given.has(name)).map((name) => [name, given.get(name)]);
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
    return chart.result;
  };
  const all = () => charts.forEach(draw);
  new MutationObserver(all).observe(document.documentElement, {attributes: true, attributeFilter: ["data-theme"]});
  narrow.addEventListener("change", all);
})();
