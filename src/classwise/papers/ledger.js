// The filters of the ledger: of the address when the page opens, and in the address when they change.
for (const ledger of document.querySelectorAll(".ledger:not([data-ready])")) {
  ledger.dataset.ready = "";
  const rows = [...ledger.querySelectorAll("details[id]")], groups = [...ledger.querySelectorAll("details.group")];
  const selects = [...ledger.querySelectorAll("select")];
  const verdicts = [...ledger.querySelectorAll("[name=verdict] option")].map((option) => option.value);
  const given = new URLSearchParams(location.search);
  let unknown = "";
  for (const select of selects) {
    const value = given.get(select.name);
    if ([...select.options].some((option) => option.value === value)) select.value = value;
    else if (value) unknown += `; there is no ${select.name} ${value}`;
  }
  const filter = () => {
    const chosen = Object.fromEntries(selects.map((select) => [select.name, select.value]));
    const fits = (name, value) => !chosen[name] || chosen[name] === value;
    for (const part of ledger.querySelectorAll("[data-scale]")) part.hidden = !fits("scale", part.dataset.scale);
    for (const row of rows) {
      const badges = [...row.querySelectorAll("summary .badge")];
      const judged = badges.some((badge) => !badge.hidden && fits("verdict", badge.dataset.verdict));
      row.hidden = !(judged && fits("paper", row.dataset.paper) && fits("section", row.dataset.section));
    }
    // What a filter selects is shown; without one, the sections are folded.
    for (const group of groups) {
      group.parentElement.hidden = [...group.querySelectorAll("details")].every((row) => row.hidden);
      group.open = Object.values(chosen).some(Boolean);
    }
    for (const part of ledger.querySelectorAll(".counts span")) {
      const number = {}, shown = `details:not([hidden]) > summary .badge[data-scale="${part.dataset.scale}"]`;
      for (const { dataset: { verdict } } of part.closest(".group").querySelectorAll(shown)) {
        if (fits("verdict", verdict)) number[verdict] = (number[verdict] || 0) + 1;
      }
      const named = verdicts.filter((name) => number[name]);
      const words = named.map((name) => `${number[name]} ${number[name] === 1 ? name : name.replace(/s$/, "")}`);
      part.textContent = `${part.textContent.split(": ")[0]}: ${words.join(", ") || "none"}`;
    }
    const output = ledger.querySelector("output");
    if (output) output.value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} claims${unknown}`;
  };
  const remember = () => {
    const query = new URLSearchParams(location.search);
    for (const select of selects) {
      if (select.value) query.set(select.name, select.value);
      else query.delete(select.name);
    }
    const text = query.toString();
    try {
      history.replaceState(null, "", location.pathname + (text && "?" + text) + location.hash);
    } catch (error) { /* a page from a file may not change its address */ }
  };
  const open = () => {
    const row = rows.find((one) => "#" + one.id === decodeURIComponent(location.hash));
    if (!row) return;
    row.hidden = row.closest("section").hidden = false;
    row.open = row.closest(".group").open = true;
    row.scrollIntoView();
  };
  for (const select of selects) select.addEventListener("change", () => { filter(); remember(); });
  addEventListener("hashchange", open);
  filter();
  open();
  if (!location.hash && selects.some((select) => select.value)) ledger.scrollIntoView();
}
