// The leaderboard: a click on a head sorts it, the search box hides the rows without what is written there.
for (const board of document.querySelectorAll(".leaderboard:not([data-ready])")) {
  board.dataset.ready = "";
  const body = board.querySelector("tbody"), rows = [...body.rows], heads = [...board.querySelectorAll("[scope=col]")];
  heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
    const old = head.getAttribute("aria-sort"), up = old ? old === "descending" : "up" in head.dataset;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => row.cells[place].dataset.value ?? row.cells[place].textContent;
    rows.sort((first, second) => {
      const one = key(first), other = key(second);
      if (!one || !other) return !one - !other; // what is unknown comes last in either order
      return (up ? 1 : -1) * (isNaN(one - other) ? one.localeCompare(other) : one - other);
    });
    body.append(...rows);
  }));
  const box = board.querySelector("input");
  const search = () => {
    const words = box.value.trim().toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(words);
    board.querySelector("output").value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} defences`;
  };
  box.addEventListener("input", search);
  search();
}
