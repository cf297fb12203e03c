/** The editor of a flow: documents by country, sent as the body of one route. */

import { refused } from "./acts.js";
import { call, freshKey, Problem } from "./control.js";
import { leave } from "./draft.js";
import { slot } from "./forms.js";
import { say } from "./words.js";

const FLOWS = "/v1/verification-flows";
const STALE = 412;

/** The chosen documents of each country. @param {HTMLFormElement} form */
function selections(form) {
  return [...form.querySelectorAll("details[data-country]")]
    .map((place) => ({
      country: /** @type {HTMLElement} */ (place).dataset.country ?? "",
      capabilities: [...place.querySelectorAll("input:checked")].map((one) => /** @type {HTMLInputElement} */ (one).value),
    }))
    .filter((one) => one.capabilities.length > 0);
}

/** @param {HTMLFormElement} form */
function bodyOf(form) {
  const said = new FormData(form);
  const flowType = String(said.get("flow_type"));
  return {
    name: String(said.get("name")),
    flow_type: flowType,
    documents: flowType === "BIOMETRIC" ? [] : selections(form),
    return_url: String(said.get("return_url")).trim() || null,
  };
}

/** Focus the field a problem names. @param {HTMLFormElement} form @param {unknown} error */
function focusNamed(form, error) {
  const pointer = error instanceof Problem ? error.errors[0]?.pointer : undefined;
  const field = pointer ? form.querySelector(`#${CSS.escape(pointer.split("/")[1] ?? "")}`) : null;
  if (field instanceof HTMLElement) field.focus();
}

/** @param {HTMLFormElement} form */
async function save(form) {
  if (form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  slot("problem").hidden = true;
  const { flow, seen, done } = form.dataset;
  try {
    if (flow) await call("PATCH", `${FLOWS}/${flow}`, bodyOf(form), { "If-Match": seen ?? "" });
    const made = flow ? null : await call("POST", FLOWS, bodyOf(form), { "Idempotency-Key": freshKey() });
    const at = new URL(form.dataset.then ?? "", location.href);
    at.pathname += `/${flow ?? made.flow_id}`;
    leave(at.href, done ?? "");
  } catch (error) {
    refused(error);
    if (error instanceof Problem && error.status === STALE) slot("problem").textContent = say("script.stale_flow");
    focusNamed(form, error);
    form.ariaBusy = "false";
  }
}

const form = document.querySelector('form[data-form="flow"]');
if (form instanceof HTMLFormElement) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    save(form);
  });
  const kind = form.querySelector("#flow_type");
  const shape = () => slot("documents", form).toggleAttribute("hidden", kind instanceof HTMLSelectElement && kind.value === "BIOMETRIC");
  kind?.addEventListener("change", shape);
  shape();
  const sought = slot("country", form);
  sought.addEventListener("input", () => {
    const text = /** @type {HTMLInputElement} */ (sought).value.trim().toLowerCase();
    for (const place of form.querySelectorAll("details[data-country]")) {
      place.toggleAttribute("hidden", !place.querySelector("summary")?.textContent?.toLowerCase().includes(text) && !place.querySelector("input:checked"));
    }
  });
}
