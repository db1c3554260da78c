// Draws Altair's charts as SVG on a transparent background, and again, with the reader's choices, when the theme of the page
// changes. The theme is "auto" until the script of the page has run.
(function () {
  const embed = window.vegaEmbed, charts = [], night = matchMedia("(prefers-color-scheme: dark)");
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
  async function draw(chart) {
    if (chart.busy) return;  // it looks again when it is done
    chart.busy = true;
    while (chart.scheme !== scheme()) {
      const old = chart.result && chart.result.view;
      const bound = (chart.spec.params || []).filter((param) => old && param.bind && !param.select).map((param) => param.name);
      const kept = bound.map((name) => [name, old.signal(name)]);
      if (old) chart.result.finalize();
      chart.scheme = scheme();
      chart.result = await embed(chart.place, structuredClone(chart.spec), look(chart.options, chart.scheme));
      for (const [name, value] of kept) chart.result.view.signal(name, value);
      await chart.result.view.runAsync();
    }
    chart.busy = false;
  }
  window.vegaEmbed = async function (place, spec, options) {
    const chart = {place, spec: structuredClone(spec), options};
    charts.push(chart);
    await draw(chart);
    return chart.result;
  };
  new MutationObserver(() => charts.forEach(draw))
    .observe(document.documentElement, {attributes: true, attributeFilter: ["data-theme"]});
})();
