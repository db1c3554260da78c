// The words of the square under the pointer in one tooltip; on a touch screen a tap shows them, and a second one follows the link.
for (const mosaic of document.querySelectorAll(".mosaic:not([data-ready])")) {
  mosaic.dataset.ready = "";
  const tip = mosaic.querySelector(".tip");
  let shown = null, first = false;
  const show = (square, touched) => {
    first = touched && square !== shown;
    shown = square;
    tip.hidden = !square;
    if (!square) return;
    tip.textContent = square.dataset.words.replace(/-(?=\.?\d)/g, "\u2212");
    tip.style.left = `${Math.min(square.offsetLeft, mosaic.clientWidth - tip.offsetWidth)}px`;
    tip.style.top = `${square.offsetTop + square.offsetHeight + 4}px`;
  };
  mosaic.addEventListener("pointerover", (event) => show(event.target.closest("a"), event.pointerType === "touch"));
  mosaic.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") show(null); });
  mosaic.addEventListener("click", (event) => { if (first) event.preventDefault(); });
  addEventListener("pointerdown", (event) => { if (!mosaic.contains(event.target)) show(null); });
}
