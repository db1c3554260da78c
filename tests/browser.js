// What the tests of the book do in a page; browser.py takes each function by its name.

// Whether the text of the charts is light on a dark page, or dark on a light one; the numbers in the cells of a matrix stand on a
// ground of their own.
const STANDS_OUT = ([scheme, least]) => {
  const texts = [...document.querySelectorAll(".vega-embed svg text:not(.mark-rect.role-mark ~ .mark-text.role-mark text)")];
  return texts.length > least && texts.every(one => {
    const [red, green, blue] = getComputedStyle(one).fill.match(/[\d.]+/g).map(Number);
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue > 127) === (scheme === "dark");
  });
};

// A chart, and another scheme before it can be drawn.
const LATE = scheme => {
  const late = document.querySelector("article").appendChild(document.createElement("div"));
  late.id = "late";
  vegaEmbed(late, {data: {values: [{a: 1}]}, mark: "point", encoding: {x: {field: "a", type: "quantitative"}}}, {});
  document.documentElement.dataset.theme = scheme;
};

// A chart that cannot be drawn at first: returns what the page learns of it.
const FAILING = () => {
  const place = document.querySelector("article").appendChild(document.createElement("div"));
  place.id = "failing";
  let drawings = 0;
  const patch = vega => { if (!drawings++) throw new Error("once"); return vega; };
  const spec = {data: {values: [{a: 1}]}, mark: "point", encoding: {x: {field: "a", type: "quantitative"}}};
  return vegaEmbed(place, spec, {patch}).then(() => "drawn", error => error.message);
};

// The heads of rows that have more lines than words.
const BROKEN = heads => heads.filter(head => {
  const range = document.createRange();
  range.selectNodeContents(head);
  const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
  return lines.size > head.textContent.trim().split(/[\s-]+/).length;
}).map(head => head.textContent);

// Where each element begins and ends, in pixels from the left.
const SIDES = all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right]);

// The smallest text of the charts in sight, in pixels as it is drawn.
const SMALLEST = () => {
  const sizes = [...document.querySelectorAll(".vega-embed svg text")]
    .filter(one => one.textContent.trim() && one.getClientRects().length)
    .map(one => parseFloat(getComputedStyle(one).fontSize) * one.ownerSVGElement.getBoundingClientRect().width
      / (one.ownerSVGElement.viewBox.baseVal.width || one.ownerSVGElement.width.baseVal.value));
  return sizes.length ? Math.min(...sizes) : null;
};

// Whether the charts in sight are as wide as their place, or 900 pixels; those with images keep their size.
const WIDE = () => [...document.querySelectorAll(".vega-embed > svg:not(:has(image))")].filter(one => one.clientWidth)
  .every(one => one.viewBox.baseVal.width > 0.94 * Math.min(900, one.parentNode.clientWidth));

// What is wrong with the charts in sight: wider than their place, words beyond the drawing, words or images that cover others, and
// words that charts.js hid because they would: more than some, or any number of a cell.
const MISFITS = most => [...document.querySelectorAll(".vega-embed > svg")].filter(one => one.clientWidth).flatMap(svg => {
  const drawing = svg.getBoundingClientRect(), place = svg.parentNode, wrong = [];
  const figure = (svg.closest("figure") || place).id;
  const more = place.scrollWidth - place.clientWidth;
  if (more > 1) wrong.push(`${figure}: ${more} pixels too wide`);
  const seen = one => one.textContent.trim() && getComputedStyle(one).opacity !== "0";
  const written = [...svg.querySelectorAll("text")].filter(seen);
  const hidden = one => getComputedStyle(one).visibility === "hidden";
  const marks = written.filter(one => one.closest(".role-mark")), lost = marks.filter(hidden);
  if (lost.length > most * marks.length) wrong.push(`${figure}: ${lost.length} of ${marks.length} words are hidden`);
  const cells = lost.filter(one => one.matches(".mark-rect.role-mark ~ .mark-text.role-mark text"));
  if (cells.length) wrong.push(`${figure}: ${cells.length} cells show no number`);
  const images = [...svg.querySelectorAll("image")].map(one => one.getBoundingClientRect()).filter(box => box.width);
  const covers = (one, other) => Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1
    && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1;
  const covered = images.filter((one, number) => images.slice(0, number).some(other => covers(one, other)));
  if (covered.length) wrong.push(`${figure}: ${covered.length} images cover others`);
  const words = written.filter(one => !hidden(one)).map(one => [one.textContent, one.getBoundingClientRect()]);
  words.forEach(([text, box], number) => {
    const across = Math.max(drawing.left - box.left, box.right - drawing.right);
    const along = Math.max(drawing.top - box.top, box.bottom - drawing.bottom);
    if (Math.max(across, along) > 2) wrong.push(`${figure}: "${text}" lies beyond the drawing`);
    for (const [other, its] of words.slice(0, number)) {
      const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
      const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
      if (across > 1 && down > 4) wrong.push(`${figure}: "${text}" covers "${other}"`);
    }
  });
  return wrong;
});

// What axe reports, as its rule and the first place.
const AXE = rules => axe.run(document, {preload: false, ...(rules.length ? {runOnly: rules} : {})}).then(result => result.violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => `${one.id} (${one.nodes.length}): ${one.nodes[0].target} ${one.nodes[0].html.slice(0, 200)}`));

// What a reader sees of tables and of negative numbers that is not as it is printed.
const UNPRINTED = () => {
  const heads = [...document.querySelectorAll("article table.dataframe thead tr:nth-child(2)")];
  const words = [...document.querySelectorAll("article :is(p, li, td, summary)")].map(one => one.innerText);
  const empty = heads.filter(row => [...row.cells].slice(1).every(cell => !cell.innerText.trim()));
  return [...empty.map(row => row.innerText), ...words.filter(text => /(^|[\s([])-\.?\d/.test(text))];
};
