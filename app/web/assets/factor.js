/** The second factor: its code or a recovery code, or enrolment with recovery codes that must be kept. */

import { call } from "./control.js";
import { sending, slot, tell } from "./forms.js";

const onward = document.body.dataset.onward ?? "/console";
const MFA = "/v1/control/mfa";
/** A screen reader is silent where the focus leaves at once what has just gone. */
const GONE_MS = 300;

/** @param {string} name @returns {HTMLFormElement | null} */
const form = (name) => document.querySelector(`[data-form="${name}"]`);

/** Show one part of the page; the focus follows it, unless it is there. @param {string} name */
function show(name) {
  for (const part of document.querySelectorAll("[data-part]")) {
    if (part instanceof HTMLElement) part.hidden = part.dataset.part !== name;
  }
  const part = document.querySelector(`[data-part="${name}"]`);
  const first = part?.querySelector("input:not([type=checkbox])") ?? part?.querySelector("h1");
  setTimeout(() => {
    if (first instanceof HTMLElement && !part?.contains(document.activeElement)) first.focus();
  }, GONE_MS);
}

for (const button of document.querySelectorAll("[data-show]")) {
  button.addEventListener("click", () => show(/** @type {HTMLElement} */ (button).dataset.show ?? ""));
}

const code = form("code");
if (code) sending(code, (values) => ["POST", `${MFA}/verify`, { code: plain(values.code) }], () => location.assign(onward));

const recovery = form("recovery");
if (recovery) {
  sending(recovery, (values) => ["POST", `${MFA}/verify`, { recovery_code: values.recovery_code?.trim() }], () => {
    location.assign(onward);
  });
}

const begin = document.querySelector('[data-action="begin"]');
begin?.addEventListener("click", async () => {
  try {
    const drawn = await call("POST", `${MFA}/totp`);
    const image = /** @type {HTMLImageElement} */ (slot("qr"));
    image.src = URL.createObjectURL(new Blob([drawn.qr_svg], { type: "image/svg+xml" }));
    slot("secret").textContent = drawn.secret.replace(/(.{4})(?=.)/g, "$1 ");
    show("scan");
  } catch (error) {
    tell(slot("problem"), error);
  }
});

const confirm = form("confirm");
if (confirm) {
  sending(confirm, (values) => ["POST", `${MFA}/totp/confirm`, { code: plain(values.code) }], (answer) => {
    slot("codes").replaceChildren(
      ...answer.recovery_codes.map((/** @type {string} */ one) => {
        const item = document.createElement("li");
        item.textContent = one;
        return item;
      }),
    );
    addEventListener("beforeunload", keep);
    show("codes");
  });
}

/** @param {BeforeUnloadEvent} event */
const keep = (event) => event.preventDefault();

form("kept")?.addEventListener("submit", (event) => {
  event.preventDefault();
  removeEventListener("beforeunload", keep);
  location.assign(onward);
});

document.querySelector('[data-action="copy"]')?.addEventListener("click", () => {
  const all = [...slot("codes").children].map((one) => one.textContent).join("\n");
  navigator.clipboard?.writeText(all);
});

/** A code as it is written, without the spaces people put in. @param {string | undefined} given */
function plain(given) {
  return (given ?? "").replace(/\s/g, "");
}
