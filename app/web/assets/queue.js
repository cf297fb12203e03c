/** The queue: keys, the next case, and a fresh look now and then that moves nothing under pointer or focus. */

import { isShortcut, localise } from "./console.js";
import { call } from "./control.js";
import { slot, tell } from "./forms.js";
import { say } from "./words.js";

const RESTS_AFTER_MS = 600_000;
/** Without input the page stops looking: it would keep the session alive by itself. */

const CASES = "/console/review-cases";
let acted = Date.now();
for (const kind of ["keydown", "pointermove", "pointerdown", "scroll"]) {
  addEventListener(kind, () => (acted = Date.now()), { passive: true });
}

/** @returns {HTMLAnchorElement[]} */
const links = () => [...document.querySelectorAll(".cases .subject a")].filter((one) => one instanceof HTMLAnchorElement);

/** Move the focus to another row. @param {number} by */
function move(by) {
  const all = links();
  const at = all.findIndex((one) => one === document.activeElement);
  all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))]?.focus();
}

const button = document.querySelector('[data-action="take"]');
async function take() {
  if (!(button instanceof HTMLButtonElement) || button.disabled) return;
  button.disabled = true;
  try {
    const livemode = button.dataset.livemode === "true";
    const taken = await call("POST", "/v1/control/review-cases/claim-next", { livemode });
    if (taken) return location.assign(`${CASES}/${taken.review_case_id}${livemode ? "" : "?livemode=false"}`);
    slot("count").textContent = say("script.queue_empty");
  } catch (error) {
    tell(slot("problem"), error);
  }
  button.disabled = false;
  button.focus();
}
button?.addEventListener("click", take);

addEventListener("keydown", (event) => {
  if (!isShortcut(event)) return;
  const key = event.key.toLowerCase();
  if (key === "j" || key === "k") move(key === "j" ? 1 : -1);
  else if (key === "t") take();
  else return;
  event.preventDefault();
});

/** A filter holds as soon as it is chosen; its button is for those without scripts. */
const filters = document.querySelector(".filters");
if (filters instanceof HTMLFormElement) {
  filters.addEventListener("change", () => filters.requestSubmit());
  for (const one of filters.querySelectorAll('[data-action="narrow"]')) one.setAttribute("hidden", "");
}

/** Whether the list must not move: the pointer is on it, or the focus. */
const held = () => document.querySelector('[data-slot="cases"]:is(:hover, :focus-within)') !== null;

/** The page as it is now; parsed by the request, for nothing else may make markup here. @returns {Promise<Document | null>} */
function look() {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("GET", location.href);
    request.setRequestHeader("Accept", "text/html");
    request.responseType = "document";
    request.timeout = 20_000;
    request.onload = () => {
      if (new URL(request.responseURL).pathname !== location.pathname) location.assign(request.responseURL);
      resolve(request.status === 200 ? request.responseXML : null);
    };
    request.onerror = request.ontimeout = () => resolve(null);
    request.send();
  });
}

/** @type {Element | null} */
let waiting = null;

/** Replace the list. @param {Element} fresh */
function replace(fresh) {
  waiting = null;
  slot("cases").replaceWith(fresh);
  localise(fresh);
  for (const kind of ["pointerleave", "focusout"]) fresh.addEventListener(kind, () => setTimeout(settle, 0));
}

/** Show what was held back once nobody is on the list. */
function settle() {
  if (waiting && !held()) replace(waiting);
}

/** Bring the rows that are here up to date where they stand. @param {Element} fresh */
function update(fresh) {
  waiting = fresh;
  for (const row of document.querySelectorAll("[data-case]")) {
    const now = fresh.querySelector(`[data-case="${/** @type {HTMLElement} */ (row).dataset.case}"]`);
    row.classList.toggle("gone", now === null);
    if (!now) continue;
    for (const name of ["due", "held", "why"]) {
      const copy = now.querySelector(`.${name}`)?.cloneNode(true);
      if (copy instanceof Element) {
        localise(copy);
        row.querySelector(`.${name}`)?.replaceWith(copy);
      }
    }
    row.className = now.className;
  }
}

/** Say how many there are; the same is not written anew, for a screen reader would speak it each time. @param {string} words */
function count(words) {
  if (slot("count").textContent !== words) slot("count").textContent = words;
}

async function refresh() {
  if (document.hidden || Date.now() - acted > RESTS_AFTER_MS) return;
  const page = await look();
  const fresh = page?.querySelector('[data-slot="cases"]');
  if (!page || !fresh) return count(say("script.queue_failed"));
  count(page.querySelector('[data-slot="count"]')?.textContent ?? "");
  const views = page.querySelectorAll('[data-slot="views"] strong');
  document.querySelectorAll('[data-slot="views"] strong').forEach((one, at) => (one.textContent = views[at]?.textContent ?? ""));
  const copy = document.importNode(fresh, true);
  if (held()) update(copy);
  else replace(copy);
}

for (const kind of ["pointerleave", "focusout"]) slot("cases").addEventListener(kind, () => setTimeout(settle, 0));
setInterval(refresh, Number(slot("cases").dataset.every) * 1000);
