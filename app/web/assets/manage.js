/** Forms that name the route they are sent to, dialogs about one entry of a list, and what is shown once. */

import { leave, arrive } from "./draft.js";
import { sending, slot } from "./forms.js";

const DAY_MS = 86_400_000;

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Field */

/** @param {Element} one @returns {one is Field} */
const isField = (one) => one instanceof HTMLInputElement || one instanceof HTMLSelectElement || one instanceof HTMLTextAreaElement;

/** Whether a field is not as the page came. @param {Field} field */
function differs(field) {
  if (field instanceof HTMLSelectElement) return [...field.options].some((one) => one.selected !== one.defaultSelected);
  if (field instanceof HTMLInputElement && field.type === "checkbox") return field.checked !== field.defaultChecked;
  return field.value !== field.defaultValue;
}

/** What the fields of one name say, in the type that the first one names. @param {Field[]} fields @returns {unknown} */
function valueOf(fields) {
  const [first] = fields;
  if (!first) return undefined;
  switch (first.dataset.type) {
    case "list":
      return fields.filter((one) => one instanceof HTMLInputElement && one.checked).map((one) => one.value);
    case "flag":
      return first instanceof HTMLInputElement && first.type === "checkbox" ? first.checked : first.value === "true";
    case "number":
      return first.value.trim() === "" ? null : Number(first.value);
    case "lines":
      return first.value.split("\n").map((one) => one.trim()).filter(Boolean);
    case "days":
      return first.value === "never" ? "never" : new Date(Date.now() + Number(first.value) * DAY_MS).toISOString();
    default:
      return first.value;
  }
}

/** The body of a form, if it has fields; a dot in a name is an object in the body. @param {HTMLFormElement} form */
function bodyOf(form) {
  const fields = [...form.elements].filter(isField).filter((one) => one.name !== "");
  if (fields.length === 0) return undefined;
  /** @type {Record<string, any>} */
  const body = {};
  for (const name of new Set(fields.map((one) => one.name))) {
    const named = fields.filter((one) => one.name === name);
    if ("changes" in form.dataset && !named.some(differs)) continue;
    const path = name.split(".");
    const last = path.pop() ?? "";
    const into = path.reduce((at, part) => (at[part] ??= {}), body);
    into[last] = valueOf(named);
  }
  return body;
}

/** Show what is never shown again, and go on once it is stored. @param {string} text @param {() => void} after */
export function showOnce(text, after) {
  const dialog = /** @type {HTMLDialogElement} */ (slot("once"));
  slot("secret", dialog).textContent = text;
  /** @param {Event} event */
  const stay = (event) => event.preventDefault();
  addEventListener("beforeunload", stay);
  dialog.addEventListener("cancel", stay);
  dialog.addEventListener("close", () => {
    removeEventListener("beforeunload", stay);
    after();
  });
  dialog.querySelector('[data-action="copy"]')?.addEventListener("click", () => {
    navigator.clipboard?.writeText(text).then(() => (slot("copied", dialog).hidden = false), () => {});
  });
  dialog.showModal();
}

/** @param {HTMLFormElement} form */
function manage(form) {
  const { send = "", once = "", prefix = "", done = "" } = form.dataset;
  const [method = "", path = ""] = send.split(" ");
  const seen = form.dataset.seen;
  sending(
    form,
    () => [method, form.dataset.path ?? path, bodyOf(form), seen ? { "If-Match": seen } : undefined],
    (answer) => {
      const onward = () => leave(location.pathname + location.search, done);
      form.closest("dialog")?.close();
      if (!once) return onward();
      const said = answer[once];
      showOnce(Array.isArray(said) ? said.join("\n") : (prefix ? location.origin + prefix : "") + said, onward);
    },
  );
}

for (const form of document.querySelectorAll("form[data-send]")) if (form instanceof HTMLFormElement) manage(form);

for (const button of document.querySelectorAll("button[data-opens]")) {
  button.addEventListener("click", () => {
    const { opens, path, about, value } = /** @type {HTMLElement} */ (button).dataset;
    const dialog = /** @type {HTMLDialogElement} */ (document.querySelector(`dialog[data-name="${opens}"]`));
    const form = /** @type {HTMLFormElement} */ (dialog.querySelector("form"));
    form.reset();
    slot("problem", form).hidden = true;
    form.dataset.path = path;
    slot("about", dialog).textContent = about ?? "";
    const chosen = form.querySelector("select");
    if (chosen && value) chosen.value = value;
    dialog.showModal();
  });
}
for (const button of document.querySelectorAll('dialog [data-action="cancel"]')) {
  button.addEventListener("click", () => button.closest("dialog")?.close());
}
const arrived = arrive();
if (arrived) slot("said").textContent = arrived;
