/** Sends the requests of the reference's forms with a test key, which stays in this page's memory. */

const PREFIX = "idv_test_";
const KEY_HEADER = "Idempotency-Key";

const field = document.querySelector("#key");
const hint = document.querySelector('[data-slot="key-hint"]');

/** Why the key cannot be used, or null. @param {string} key */
function fault(key) {
  if (key === "" || key.startsWith(PREFIX)) return null;
  return `Only test keys are sent from here: they begin with ${PREFIX}.`;
}

/** What the form asks for. @param {HTMLFormElement} form @param {string} key */
function prepared(form, key) {
  let path = form.dataset["path"] ?? "";
  const query = new URLSearchParams();
  const headers = new Headers();
  /** @type {string | undefined} */
  let body;
  if (key) headers.set("Authorization", `Bearer ${key}`);
  for (const given of form.querySelectorAll("input, textarea")) {
    if (!(given instanceof HTMLInputElement || given instanceof HTMLTextAreaElement) || given.value === "") continue;
    const place = given.dataset["place"];
    if (place === "path") path = path.replace(`{${given.name}}`, encodeURIComponent(given.value));
    else if (place === "query") query.set(given.name, given.value);
    else if (place === "header") headers.set(given.name, given.value);
    else body = given.value;
  }
  if (body !== undefined) headers.set("Content-Type", form.dataset["type"] || "application/json");
  const address = query.size ? `${path}?${query}` : path;
  return new Request(address, { method: form.dataset["method"] ?? "GET", headers, body: body ?? null, credentials: "omit" });
}

/** The answer's body as text that can be read. @param {Response} answer */
async function readable(answer) {
  const kind = answer.headers.get("Content-Type") ?? "";
  if (!/json|text|yaml|csv/.test(kind)) return `${(await answer.blob()).size} bytes of ${kind || "nothing"}`;
  const text = await answer.text();
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** @param {HTMLFormElement} form */
async function send(form) {
  const status = form.querySelector('[data-slot="status"]');
  const shown = form.querySelector('[data-slot="answer"]');
  const key = field instanceof HTMLInputElement ? field.value.trim() : "";
  if (!status || !(shown instanceof HTMLElement)) return;
  const wrong = fault(key);
  shown.hidden = true;
  if (wrong) {
    status.textContent = wrong;
    return;
  }
  status.textContent = "Sending…";
  try {
    const answer = await fetch(prepared(form, key));
    shown.textContent = await readable(answer);
    shown.hidden = shown.textContent === "";
    status.textContent = `${answer.status} ${answer.statusText}, request ${answer.headers.get("X-Request-Id") ?? "unknown"}`;
  } catch {
    status.textContent = "The request could not be sent. Is the service reachable?";
  }
}

for (const form of document.querySelectorAll(".try form")) {
  if (!(form instanceof HTMLFormElement)) continue;
  for (const given of form.querySelectorAll("input")) {
    if (given.name === KEY_HEADER) given.value = crypto.randomUUID?.() ?? String(Date.now());
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void send(form);
  });
}
for (const hidden of document.querySelectorAll(".try, .key")) {
  if (hidden instanceof HTMLElement) hidden.hidden = false;
}
field?.addEventListener("input", () => {
  if (!(field instanceof HTMLInputElement) || !hint) return;
  hint.textContent = fault(field.value.trim()) ?? "It stays in the memory of this page and is gone when you leave it.";
});
document.querySelector(".key")?.addEventListener("submit", (event) => event.preventDefault());
