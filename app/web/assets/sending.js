/** The last steps before the result: the end of the document's number, and handing everything in. */

import { Refusal } from "./api.js";
import { one, say, show, slot } from "./frame.js";

/** @typedef {import("./capture.js").Session} Session */

/** @type {string | undefined} */
let number;

/** Ask for the last four characters. @param {Session} session */
export function askNumber(session) {
  const input = /** @type {HTMLInputElement} */ (one("#last4"));
  const wrong = one("#number-wrong");
  /** Take the alert away, so that it is spoken when it comes again. */
  const clear = () => {
    wrong.hidden = true;
    wrong.textContent = "";
    delete wrong.dataset.text;
  };
  input.oninput = clear;
  slot("number-form").onsubmit = (event) => {
    event.preventDefault();
    const good = /^[A-Za-z0-9]{4}$/.test(input.value.trim());
    input.setAttribute("aria-invalid", String(!good));
    if (good) {
      number = input.value.trim().toUpperCase();
      session.taken("NUMBER");
      return;
    }
    clear();
    say(wrong, "number.wrong");
    wrong.hidden = false;
    input.focus();
  };
  show("number");
}

/** Hand everything in; a session that cannot be handed in shows where it stands. @param {Session} session */
export async function submit(session) {
  const kind = /** @type {HTMLInputElement | null} */ (document.querySelector("[name=kind]:checked"));
  const body = { ...(kind ? { document_code: kind.value } : {}), ...(number ? { number_last4: number } : {}) };
  try {
    session.arrived(await session.api.post("/submit", body));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    await session.refresh();
  }
}
