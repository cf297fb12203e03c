/** The frame of the console: times of the reader, shortcuts, and the warning before an idle session ends. */

import { call, enable, heard } from "./control.js";

const WARN_S = 120;
const { locale, singleKeys, endsIn } = document.body.dataset;

/** Whether single letters are shortcuts now: not in a field, not in a dialog, not when switched off. @param {KeyboardEvent} event */
export function isShortcut(event) {
  const target = event.target instanceof Element ? event.target : null;
  const typing = target?.closest("input:not([type=radio], [type=checkbox]), textarea, select, dialog");
  return singleKeys === "true" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
}

/** Write times in the reader's zone and language. @param {ParentNode} within */
export function localise(within) {
  for (const time of within.querySelectorAll("time[data-form]")) {
    const moment = new Date(/** @type {HTMLTimeElement} */ (time).dateTime);
    const near = Math.abs(moment.getTime() - Date.now()) < 20 * 3600_000 && moment.getDate() === new Date().getDate();
    /** @type {Intl.DateTimeFormatOptions} */
    const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    const day = time.getAttribute("data-form") === "clock" ? { weekday: "short" } : { day: "numeric", month: "short", year: "numeric" };
    /** @type {any} */
    const form = near ? clock : { ...day, ...clock };
    time.textContent = new Intl.DateTimeFormat(locale || undefined, form).format(moment);
    time.setAttribute("title", new Intl.DateTimeFormat(locale || undefined, { dateStyle: "full", timeStyle: "long" }).format(moment));
  }
}

/** @param {string} name @returns {HTMLDialogElement | null} */
const dialog = (name) => document.querySelector(`dialog[data-slot="${name}"]`);

/** End the session and go to sign-in. */
export async function signOut() {
  await call("DELETE", "/v1/control/sessions/current").catch(() => null);
  location.assign("/console/sign-in");
}

/** Warn two minutes before the session ends. @param {HTMLDialogElement} warning @param {number} lasts */
function watch(warning, lasts) {
  let ends = performance.now() + lasts * 1000;
  heard.add(() => {
    ends = performance.now() + lasts * 1000;
    if (warning.open) warning.close();
  });
  const left = warning.querySelector('[data-slot="left"]');
  setInterval(() => {
    const rest = Math.round((ends - performance.now()) / 1000);
    if (rest <= 0) location.assign(`/console/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
    else if (rest <= WARN_S && !warning.open) warning.showModal();
    if (left) left.textContent = `${Math.floor(Math.max(rest, 0) / 60)}:${String(Math.max(rest, 0) % 60).padStart(2, "0")}`;
  }, 1000);
}

addEventListener("keydown", (event) => {
  if (!isShortcut(event)) return;
  if (event.key === "/") /** @type {HTMLElement | null} */ (document.querySelector(".find input"))?.focus();
  else if (event.key === "?") dialog("keys")?.showModal();
  else return;
  event.preventDefault();
});

localise(document);
const idle = dialog("idle");
if (idle && endsIn) watch(idle, Number(endsIn));
document.querySelector('[data-action="stay"]')?.addEventListener("click", () => {
  call("GET", "/v1/control/sessions/current").catch(() => null);
});
for (const button of document.querySelectorAll('[data-action="sign-out"]')) button.addEventListener("click", signOut);
addEventListener("DOMContentLoaded", () => enable(document)); // after the last module of the page
