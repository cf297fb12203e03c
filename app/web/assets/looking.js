/** The evidence of a case: fetched when it is about to be seen, enlarged, moved, turned and marked. */

const FROM_PERCENT = 100;
const TO_PERCENT = 400;

/**
 * Fetch each image once its place comes into view; a look is audited, so none is fetched before.
 * @param {HTMLElement} place @param {string} failed @param {(shot: HTMLElement) => void} seen
 */
export function fetchWhenSeen(place, failed, seen) {
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || !(entry.target instanceof HTMLElement)) continue;
      watch.unobserve(entry.target);
      fetchInto(entry.target, failed, seen);
    }
  });
  for (const shot of place.querySelectorAll(".shot[data-src]")) watch.observe(shot);
}

/** @param {HTMLElement} shot @param {string} failed @param {(shot: HTMLElement) => void} seen */
function fetchInto(shot, failed, seen) {
  const image = new Image();
  image.alt = shot.dataset.alt ?? "";
  image.addEventListener("load", () => {
    const view = shot.closest(".sheet-view");
    if (view instanceof HTMLElement) view.style.setProperty("--ratio", String(image.naturalWidth / image.naturalHeight));
    seen(shot);
  });
  image.addEventListener("error", () => {
    shot.replaceChildren(failed);
    shot.classList.add("failed");
  });
  shot.replaceChildren(image);
  image.src = shot.dataset.src ?? "";
}

/** Enlarge, move, turn and mark the image of a document. @param {HTMLElement} viewer */
export function enlarge(viewer) {
  const view = viewer.querySelector("[data-slot=view]");
  const range = viewer.querySelector("[data-slot=zoom]");
  const size = viewer.querySelector("[data-slot=size]");
  if (!(view instanceof HTMLElement) || !(range instanceof HTMLInputElement) || !size) return;
  let turns = 0;
  const zoom = (/** @type {number} */ percent) => {
    const before = Number(view.style.getPropertyValue("--zoom") || 1);
    const now = Math.min(TO_PERCENT, Math.max(FROM_PERCENT, percent)) / 100;
    const middle = [view.scrollLeft + view.clientWidth / 2, view.scrollTop + view.clientHeight / 2];
    view.style.setProperty("--zoom", String(now));
    view.scrollTo((middle[0] ?? 0) * (now / before) - view.clientWidth / 2, (middle[1] ?? 0) * (now / before) - view.clientHeight / 2);
    range.value = String(now * 100);
    size.textContent = `${Math.round(now * 100)} %`;
  };
  range.addEventListener("input", () => zoom(Number(range.value)));
  viewer.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (!button) return;
    if (button.dataset.zoom) zoom(Number(range.value) + Number(button.dataset.zoom));
    if ("turn" in button.dataset) {
      turns += 1;
      view.style.setProperty("--turn", String(turns));
      view.classList.toggle("sideways", turns % 2 === 1);
    }
    if ("marks" in button.dataset) {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      view.classList.toggle("bare", !on);
    }
  });
  move(view);
}

/** Move the enlarged image with the pointer; the keyboard scrolls it by itself. @param {HTMLElement} view */
function move(view) {
  /** @type {[number, number] | null} */
  let held = null;
  view.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0) return;
    held = [event.clientX, event.clientY];
    view.setPointerCapture(event.pointerId);
    view.classList.add("held");
    event.preventDefault();
    view.focus({ preventScroll: true });
  });
  view.addEventListener("pointermove", (event) => {
    if (!held) return;
    view.scrollBy(held[0] - event.clientX, held[1] - event.clientY);
    held = [event.clientX, event.clientY];
  });
  for (const end of ["pointerup", "pointercancel"]) {
    view.addEventListener(end, () => {
      held = null;
      view.classList.remove("held");
    });
  }
}

/** A field and its places on the image light up together. @param {HTMLElement} place */
export function lightUp(place) {
  for (const row of place.querySelectorAll(".fields tr[data-field]")) {
    if (!(row instanceof HTMLElement)) continue;
    const marks = [...place.querySelectorAll(".mark")].filter((one) => one.getAttribute("data-field") === row.dataset.field);
    const light = (/** @type {boolean} */ on) => {
      for (const one of [row, ...marks]) one.classList.toggle("lit", on);
    };
    for (const name of ["pointerenter", "focusin"]) row.addEventListener(name, () => light(marks.length > 0));
    for (const name of ["pointerleave", "focusout"]) row.addEventListener(name, () => light(false));
    row.querySelector(".spot")?.addEventListener("click", () => marks[0]?.scrollIntoView({ block: "nearest", inline: "nearest" }));
  }
}
