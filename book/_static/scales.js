// The switch between the outputs of two scales (book/merging.py): each output after a mark belongs to the mark's scale, up to the
// next mark or the end. The choice is remembered for all pages.
(function () {
  const key = "classwise-scale";
  function groups() {
    const result = [];
    for (const mark of document.querySelectorAll(".scale-mark")) {
      const start = mark.closest(".cell_output > *, figure > *");
      const scale = mark.dataset.scale;
      if (!start || !scale) continue;
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
    for (const button of buttons) {
      button.addEventListener("click", () => {
        choose(button.dataset.scale);
        try { localStorage.setItem(key, button.dataset.scale); } catch (error) { /* a page from file:// may have no storage */ }
      });
    }
    let stored = null;
    try { stored = localStorage.getItem(key); } catch (error) { /* likewise */ }
    // A page whose first chart exists at one scale only opens with that one.
    const first = buttons[0].parentElement.dataset.first;
    choose(first || (known.includes(stored) ? stored : known[0]));
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
