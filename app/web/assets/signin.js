/** Sign-in with e-mail address and password, and a new password by a link that was given out once. */

import { sending, slot } from "./forms.js";
import { say } from "./words.js";

const onward = document.body.dataset.onward ?? "/console";
const enter = document.querySelector('[data-form="sign-in"]');
if (enter instanceof HTMLFormElement) {
  sending(enter, ({ email, password }) => ["POST", "/v1/control/sessions", { email, password }], () => {
    location.assign(onward);
  });
}

const reset = document.querySelector('[data-form="reset"]');
if (reset instanceof HTMLFormElement) {
  const token = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  if (token === "") {
    slot("problem", reset).textContent = say("script.no_token");
    slot("problem", reset).hidden = false;
  }
  sending(reset, ({ new_password }) => ["POST", "/v1/control/password/reset", { token, new_password }], () => {
    reset.hidden = true;
    slot("done").hidden = false;
    slot("done").querySelector("a")?.focus();
  });
}
