// The switch between the outputs of two scales (book/scale_switch.py): each output after a mark belongs to the mark's scale, up to the
// next mark or the end; a mark outside of outputs is of its scale alone. The choice is remembered for all pages, and is in the
// address of the page: ?scale=quick.
(function () {
  const key = "classwise-scale";
  function groups() {
    const result = [];
    for (const mark of document.querySelectorAll(".scale-mark")) {
      const start = mark.closest(".cell_output > *, figure > *");
      const scale = mark.dataset.scale;
      if (!scale) continue;
      if (!start) { result.push([mark, scale]); continue; }
      for (let node = start; node; node = node.nextElementSibling) {
        if (node !== start && (node.querySelector(".scale-mark, .scale-end") || node.matches(".scale-mark, .scale-end, figcaption"))) break;
        result.push([node, scale]);
      }
    }
    return result;
  }
  function start() {
    const buttons = [...document.querySelectorAll(".scale-switch button")];
    if (!buttons.length) return;
    const known = buttons.map((button) => button.dataset.scale), parts = groups();
    function choose(scale) {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.scale === scale));
      for (const [node, own] of parts) node.hidden = own !== scale;
      document.documentElement.dataset.scale = scale;
    }
    function remember(scale) {
      const query = new URLSearchParams(location.search);
      query.set("scale", scale);
      try { localStorage.setItem(key, scale); } catch (error) { /* a page from file:// may have no storage */ }
      try { history.replaceState(null, "", `${location.pathname}?${query}${location.hash}`); } catch (error) { /* likewise */ }
    }
    for (const button of buttons) {
      button.addEventListener("click", () => { choose(button.dataset.scale); remember(button.dataset.scale); });
    }
    let stored = null;
    try { stored = localStorage.getItem(key); } catch (error) { /* likewise */ }
    // Without a scale in the address, a page that has little to show at the first scale opens with the other one.
    const given = new URLSearchParams(location.search).get("scale"), {first} = buttons[0].parentElement.dataset;
    choose([given, first, stored].find((scale) => known.includes(scale)) || known[0]);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
