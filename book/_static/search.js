// The search of Sphinx: pages before entries of the API, and excerpts also where a browser may fetch no page, from file://.
document.addEventListener("DOMContentLoaded", () => {
  if (!document.getElementById("search-results")) return;  // the scripts of the search are on all pages
  Scorer.score = ([, , , description, score]) => (description ? score - 1000 : score);
  const texts = new Promise((done) => {
    const script = document.createElement("script");
    script.src = "_static/texts.js";
    script.addEventListener("load", () => done(window.TEXTS));
    document.head.append(script);
  });
  // Sphinx takes the excerpt of a page from what it fetches.
  window.fetch = async (url) => ({text: async () => (await texts)[url.replace(/^\.\/|\.html$/g, "")] || ""});
  Search.htmlToText = (text) => text;
});
