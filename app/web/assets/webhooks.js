/** Webhook endpoints and deliveries: each form is one call of the route it names. */

import { call, freshKey } from "./control.js";
import { arrive, leave } from "./draft.js";
import { slot, tell } from "./forms.js";

/** What a form says, in the types of the interface. @param {HTMLFormElement} form */
function bodyOf(form) {
  /** @type {Record<string, unknown>} */
  const body = {};
  for (const field of form.elements) {
    if (!(field instanceof HTMLInputElement) || field.name === "") continue;
    if (field.name === "event_types") body.event_types = new FormData(form).getAll("event_types");
    else if (field.type === "checkbox") body[field.name] = field.checked;
    else if (field.type === "number") body[field.name] = field.valueAsNumber;
    else if (field.type === "datetime-local") body[field.name] = new Date(field.value).toISOString();
    else body[field.name] = field.name === "description" && field.value === "" ? null : field.value;
  }
  return form.dataset.mode === undefined ? body : { ...body, livemode: form.dataset.mode === "true" };
}

/** The key of a form's request, the same until it was answered. @type {WeakMap<HTMLFormElement, string>} */
const keys = new WeakMap();

/** @param {HTMLFormElement} form */
async function send(form) {
  const [method, path] = (form.dataset.send ?? "").split(" ");
  if (!method || !path || form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  slot("problem", form).hidden = true;
  const key = keys.get(form) ?? freshKey();
  keys.set(form, key);
  try {
    await call(method, path, method === "DELETE" ? undefined : bodyOf(form), { "Idempotency-Key": key });
    leave(form.dataset.then ?? location.href, form.dataset.done ?? "");
  } catch (error) {
    form.ariaBusy = "false";
    tell(slot("problem", form), error);
  }
}

for (const form of document.querySelectorAll("form[data-send]")) {
  form.addEventListener("input", () => keys.delete(/** @type {HTMLFormElement} */ (form)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(/** @type {HTMLFormElement} */ (form));
  });
}
slot("said").textContent = arrive() ?? "";
