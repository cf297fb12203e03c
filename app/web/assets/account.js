/** One's own account: sessions that can be ended, and preferences. */

import { call } from "./control.js";
import { slot, tell } from "./forms.js";

for (const button of document.querySelectorAll('[data-action="end"]')) {
  button.addEventListener("click", async () => {
    const row = button.closest("li");
    try {
      await call("DELETE", `/v1/control/sessions/${/** @type {HTMLElement} */ (button).dataset.session}`);
      row?.remove();
      slot("sessions-title").focus();
    } catch (error) {
      tell(slot("problem"), error);
    }
  });
}

const form = document.querySelector('[data-form="preferences"]');
if (form instanceof HTMLFormElement) {
  form.addEventListener("change", async () => {
    const values = new FormData(form);
    const locale = String(values.get("locale")).trim();
    try {
      await call("PATCH", "/v1/control/preferences", {
        theme: values.get("theme"),
        single_keys: values.has("single_keys"),
        locale: locale === "" ? null : locale,
      });
      location.reload();
    } catch (error) {
      tell(slot("problem"), error);
    }
  });
}
