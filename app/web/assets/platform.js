/** The operator's page: the catalogue and the tenants, asked with the token typed here, which stays in memory. */

import { localise } from "./console.js";
import { call, freshKey } from "./control.js";
import { sending, slot, tell } from "./forms.js";
import { showOnce } from "./manage.js";
import { say } from "./words.js";

const CATALOGUE = "/v1/platform/catalog";
const TENANTS = "/v1/platform/tenants";

/** @typedef {Record<string, any>} Row */

let token = "";
/** @type {Map<string, Row>} */
const entries = new Map();
/** @type {string | null} */
let following = null;

/** @param {Record<string, string>} [more] */
const headers = (more = {}) => ({ Authorization: `Bearer ${token}`, ...more });

/** @param {Row} entry */
const seen = (entry) => headers({ "If-Match": `"${entry.revision}"` });

/** A row of a table, drawn from its template. @param {string} name @param {Row} row @returns {HTMLElement} */
function drawn(name, row) {
  const template = /** @type {HTMLTemplateElement} */ (slot(name));
  const copy = /** @type {HTMLElement} */ (document.importNode(template.content, true).firstElementChild);
  for (const one of copy.querySelectorAll("[data-field]")) {
    const field = /** @type {HTMLElement} */ (one);
    const value = String(row[field.dataset.field ?? ""]);
    if (field instanceof HTMLTimeElement) field.dateTime = value;
    else field.textContent = value;
  }
  for (const one of copy.querySelectorAll("[data-when]")) {
    const [field = "", value] = (one.getAttribute("data-when") ?? "").split("=");
    if (String(row[field]) !== value) one.remove();
  }
  localise(copy);
  return copy;
}

/** @param {string} text */
function done(text) {
  slot("wrong").hidden = true;
  slot("said").textContent = text;
}

/** @param {Promise<any>} asked @param {(answer: any) => void} after */
function asking(asked, after) {
  asked.then(after, (error) => void tell(slot("wrong"), error));
}

/** A dialog, and the form in it. @param {string} name @returns {[HTMLDialogElement, HTMLFormElement]} */
function dialogOf(name) {
  const dialog = /** @type {HTMLDialogElement} */ (document.querySelector(`dialog[data-name="${name}"]`));
  return [dialog, /** @type {HTMLFormElement} */ (dialog.querySelector("form"))];
}

/** Open a dialog about something. @param {string} name @param {string} about @param {Row} [values] */
function open(name, about, values = {}) {
  const [dialog, form] = dialogOf(name);
  form.reset();
  slot("problem", form).hidden = true;
  form.dataset.about = values.code ?? values.tenant_id ?? "";
  const place = dialog.querySelector('[data-slot="about"]');
  if (place) place.textContent = about;
  for (const field of form.elements) {
    if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement)) continue;
    if (field instanceof HTMLInputElement && field.type === "checkbox") field.checked = values.capture?.document_number_required ?? false;
    else if (values[field.name] !== undefined) field.value = values[field.name];
    if ("fixed" in field.dataset) field.disabled = values.code !== undefined;
  }
  dialog.showModal();
}

/** @param {Row} entry */
function showEntry(entry) {
  entries.set(entry.code, entry);
  showEntries();
}

function showEntries() {
  const part = /** @type {HTMLInputElement} */ (slot("narrow")).value.trim().toLowerCase();
  const found = [...entries.values()].filter((one) => `${one.code} ${one.country_name} ${one.display_name}`.toLowerCase().includes(part));
  slot("entries").replaceChildren(
    ...found.map((entry) => {
      const row = drawn("entry-row", entry);
      for (const button of row.querySelectorAll("button")) button.addEventListener("click", () => act(entry, button.dataset.act ?? ""));
      return row;
    }),
  );
  slot("count").textContent = say("script.entries", { found: found.length, all: entries.size });
}

/** @param {Row} entry @param {string} name */
function act(entry, name) {
  if (name === "change") return open("entry", entry.display_name, entry);
  asking(call("POST", `${CATALOGUE}/${entry.code}/${name}`, undefined, seen(entry)), (changed) => {
    showEntry(changed);
    done(say(`script.${name}d`, { name: entry.display_name }));
  });
}

/** @param {Row} tenant */
function tenantRow(tenant) {
  const row = drawn("tenant-row", tenant);
  row.querySelector("button")?.addEventListener("click", () => open("invite", tenant.name, { tenant_id: tenant.tenant_id }));
  return row;
}

/** @param {{tenants: Row[], next_cursor: string | null}} page */
function showTenants(page) {
  slot("tenants").append(...page.tenants.map(tenantRow));
  following = page.next_cursor;
  slot("more").hidden = following === null;
}

/** What the form of an entry says. @param {HTMLFormElement} form @param {Record<string, string>} values */
function entryOf(form, values) {
  const { document_number_required: needed, reader, ...given } = values;
  const body = { ...given, reader: reader || null, capture: { document_number_required: needed !== undefined } };
  const before = entries.get(form.dataset.about ?? "");
  return { body, before };
}

const way = /** @type {HTMLFormElement} */ (document.querySelector('[data-form="token"]'));
sending(
  way,
  (values) => {
    token = values.token ?? "";
    return ["GET", CATALOGUE, undefined, headers()];
  },
  async (found) => {
    showTenants(await call("GET", TENANTS, undefined, headers()));
    for (const entry of found.capabilities) entries.set(entry.code, entry);
    showEntries();
    way.remove();
    slot("inside").hidden = false;
    document.querySelector("h1")?.focus();
  },
);

const [newTenant, tenantForm] = dialogOf("tenant");
sending(tenantForm, (values) => ["POST", TENANTS, values, headers({ "Idempotency-Key": freshKey() })], (tenant) => {
  slot("tenants").prepend(tenantRow(tenant));
  newTenant.close();
  done(say("script.tenant_made", { name: tenant.name }));
});

const [invitation, inviteForm] = dialogOf("invite");
sending(
  inviteForm,
  (values) => ["POST", `${TENANTS}/${inviteForm.dataset.about}/owner-invitations`, values, headers({ "Idempotency-Key": freshKey() })],
  (answer) => {
    invitation.close();
    showOnce(`${location.origin}/console/reset#${answer.invitation_token}`, () => done(say("script.owner_invited")));
  },
);

const [entryDialog, entryForm] = dialogOf("entry");
sending(
  entryForm,
  (values) => {
    const { body, before } = entryOf(entryForm, values);
    if (before) return ["PATCH", `${CATALOGUE}/${before.code}`, body, seen(before)];
    return ["POST", CATALOGUE, body.reader ? body : { ...body, reader: undefined }, headers({ "Idempotency-Key": freshKey() })];
  },
  (entry) => {
    showEntry(entry);
    entryDialog.close();
    done(say("script.entry_saved", { name: entry.display_name }));
  },
);

slot("narrow").addEventListener("input", showEntries);
slot("more").querySelector("button")?.addEventListener("click", () => asking(call("GET", `${TENANTS}?cursor=${encodeURIComponent(following ?? "")}`, undefined, headers()), showTenants));
for (const button of document.querySelectorAll("button[data-begins]")) {
  button.addEventListener("click", () => open(/** @type {HTMLElement} */ (button).dataset.begins ?? "", say("script.new")));
}
