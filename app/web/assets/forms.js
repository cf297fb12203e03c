/** Forms that call the interface: one send at a time, what went wrong, and how long to wait. */

import { call, Problem } from "./control.js";
import { say } from "./words.js";

const STEP_S = 30;
/** Seconds after which an authenticator shows another code. */

/** Codes that have words of their own; others show what the service says. */
const OWN = new Set(["CREDENTIALS_INVALID", "MFA_CODE_INVALID", "OFFLINE", "NO_ANSWER", "RATE_LIMITED", "UNAUTHENTICATED"]);

/** The element of a slot. @param {string} name @param {ParentNode} [within] @returns {HTMLElement} */
export function slot(name, within = document) {
  const found = within.querySelector(`[data-slot="${name}"]`);
  if (!(found instanceof HTMLElement)) throw new Error(`no ${name}`);
  return found;
}

/** Say what went wrong, for good or until it is tried again. @param {HTMLElement} place @param {unknown} error */
export function tell(place, error) {
  if (!(error instanceof Problem)) throw error;
  const seconds = waitOf(error);
  const meant = place.closest("form")?.getAttribute(`data-on-${error.code.toLowerCase()}`);
  const words = meant ? meant : OWN.has(error.code) ? say(`script_problem.${error.code}`, { seconds }) : error.message || say("script_problem.NO_ANSWER");
  place.textContent = words;
  place.hidden = false;
  return seconds;
}

/** @param {Problem} error @returns {number} */
function waitOf(error) {
  if (error.after > 0) return error.after;
  return error.code === "MFA_CODE_INVALID" ? STEP_S - (Math.floor(Date.now() / 1000) % STEP_S) : 0;
}

/**
 * Send a form's values when it is submitted, and go on with the answer.
 * @param {HTMLFormElement} form @param {(values: Record<string, string>) => [string, string, object?, Record<string, string>?]} request
 * @param {(answer: any, values: Record<string, string>) => unknown} after
 */
export function sending(form, request, after) {
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button:not([type=button])"));
  const problem = slot("problem", form);
  let busy = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (busy) return;
    busy = true;
    problem.hidden = true;
    button.setAttribute("aria-disabled", "true");
    const values = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
    try {
      await after(await call(...request(values)), values);
      done();
    } catch (error) {
      count(tell(problem, error));
      const field = fieldOf(form, error);
      field?.focus();
      if (field instanceof HTMLInputElement) field.select();
    }
  });
  const named = button.textContent ?? "";
  const done = () => {
    busy = false;
    button.removeAttribute("aria-disabled");
    button.textContent = named;
  };
  /** Count down on the button; the alert has said it once. @param {number} left */
  const count = (left) => {
    if (left <= 0) return done();
    button.textContent = `${named} (${left})`;
    setTimeout(() => count(left - 1), 1000);
  };
}

/** The field that is wrong, else the first. @param {HTMLFormElement} form @param {unknown} error */
function fieldOf(form, error) {
  const parts = error instanceof Problem ? error.pointer.split("/").slice(1) : [];
  for (; parts.length > 0; parts.pop()) {
    const named = form.querySelector(`[name="${CSS.escape(parts.join("."))}"]`);
    if (named instanceof HTMLElement) return named;
  }
  return /** @type {HTMLElement | null} */ (form.querySelector("input:not([type=hidden])"));
}
