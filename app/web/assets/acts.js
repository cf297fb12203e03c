/** Buttons that call a route of the interface, some after a question; what comes of it is said on the page. */

import { call, freshKey, Problem } from "./control.js";
import { arrive, leave } from "./draft.js";
import { slot, tell } from "./forms.js";

/** Say what went wrong, with every field it names. @param {unknown} error */
export function refused(error) {
  const place = slot("problem");
  tell(place, error);
  const named = error instanceof Problem ? error.errors.map((one) => one.message ?? "") : [];
  for (const text of new Set(named)) if (!place.textContent?.includes(text)) place.append(` ${text}`);
  place.scrollIntoView({ block: "nearest" });
}

/** Leave for where the answer is shown; without such a place the page is read again. @param {DOMStringMap} asked @param {any} answer */
function onward(asked, answer) {
  const text = asked.done ?? "";
  if (!asked.then) return leave(location.href, text);
  const at = new URL(asked.then, location.href);
  if (asked.part) at.pathname += `/${answer[asked.part]}`;
  leave(at.href, text);
}

/** Show the address that came as an answer. @param {string} name @param {string} address */
function show(name, address) {
  const place = slot(name);
  const link = place.querySelector("a");
  place.hidden = false;
  link?.setAttribute("href", address);
  link?.focus();
}

/** Call what a button names. @param {HTMLButtonElement} button */
async function act(button) {
  const asked = button.dataset;
  if (!asked.act || button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  slot("problem").hidden = true;
  try {
    const headers = { ...(asked.seen ? { "If-Match": asked.seen } : {}), ...(asked.key === undefined ? {} : { "Idempotency-Key": freshKey() }) };
    const answer = await call("POST", asked.act, undefined, headers);
    if (!asked.shows) return onward(asked, answer);
    show(asked.shows, answer.url);
    button.removeAttribute("aria-disabled");
  } catch (error) {
    button.closest("dialog")?.close();
    refused(error);
    button.removeAttribute("aria-disabled");
  }
}

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("button") : null;
  if (!button) return;
  if (button.dataset.ask) {
    const dialog = document.getElementById(button.dataset.ask);
    if (dialog instanceof HTMLDialogElement) dialog.showModal();
  }
  act(button);
});

/** A filter holds as soon as it is chosen; its button is for those without scripts, and for what is typed. */
const filters = document.querySelector(".filters");
if (filters instanceof HTMLFormElement) {
  filters.addEventListener("change", (event) => {
    if (event.target instanceof HTMLSelectElement) filters.requestSubmit();
  });
}

const said = arrive();
const place = document.querySelector('[data-slot="said"]');
if (said && place) place.textContent = said;
