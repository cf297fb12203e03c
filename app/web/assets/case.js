/** A review case: its forms are sent to the interface, and what changed is shown in place. */

import { bodyOf, choose, neighbour, pageOf } from "./decision.js";
import { isShortcut, localise } from "./console.js";
import { enable, heard } from "./control.js";
import { fetchWhenSeen, enlarge, lightUp } from "./looking.js";
import { arrive, forget, keep, leave, restore } from "./draft.js";

const place = /** @type {HTMLElement} */ (document.querySelector(".case"));
const said = /** @type {HTMLElement} */ (place.querySelector("[data-slot=said]"));
const words = place.dataset;
const draft = `case:${words.me}:${words.case}`;
const GONE = 401;
const STALE = [403, 409, 412];

/** @param {string} text @param {boolean} [wrong] @param {string} [href] @param {string} [name] */
function say(text, wrong = false, href = "", name = "") {
  said.classList.toggle("wrong", wrong);
  said.replaceChildren(text);
  if (!href) return;
  const link = document.createElement("a");
  link.href = href;
  link.textContent = name;
  said.append(link);
}

/** Read the page again and put what may have changed in its place; nothing typed and no image is lost. */
async function refresh() {
  const page = await new Promise((done) => {
    const request = new XMLHttpRequest();
    request.open("GET", location.href);
    request.responseType = "document";
    request.addEventListener("loadend", () => done(request.status === 200 ? request.responseXML : null));
    request.send();
  });
  if (!(page instanceof Document) || !page.querySelector(".case")) return;
  const focused = document.activeElement?.id;
  for (const part of place.querySelectorAll("[data-part]")) {
    const fresh = page.querySelector(`[data-part="${part.getAttribute("data-part")}"]`);
    if (fresh) part.replaceWith(document.importNode(fresh, true));
  }
  begin();
  const again = focused ? document.getElementById(focused) : null;
  if (document.activeElement === document.body) (again ?? document.getElementById("h-case"))?.focus({ preventScroll: true });
}

/** @param {HTMLFormElement} form @param {HTMLElement | null} button */
async function send(form, button) {
  const asked = button?.dataset.post ? button.dataset : form.dataset;
  if (!asked.post || form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  const headers = { "Content-Type": "application/json", ...(asked.seen ? { "If-Match": asked.seen } : {}) };
  const method = asked.method ?? "POST";
  const sent = method === "DELETE" ? undefined : JSON.stringify(bodyOf(form, asked.fields));
  const answer = await fetch(asked.post, { method, headers, body: sent }).catch(() => null);
  form.ariaBusy = "false";
  if (!answer) return say(words.offline ?? "", true);
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) for (const one of heard) one();
  if (!answer.ok) return refused(form, answer.status, body);
  await done(form, asked, body);
}

/** @param {HTMLFormElement} form @param {DOMStringMap} asked @param {{review_case_id: string, status: string}} body */
async function done(form, asked, body) {
  if (!("draft" in form.dataset)) form.reset();
  else if (asked.fields !== "") forget(draft);
  const concluded = { CONCLUDED: words.concluded, AWAITING_SECOND: words.waiting, ESCALATED: words.disagreed }[body.status];
  const text = asked.done ?? concluded ?? "";
  const next = asked.then === "next" ? await neighbour(0, words) : null;
  if (next) return leave(next, text);
  if ("opens" in asked) return leave(pageOf(body.review_case_id, words), text);
  await refresh();
  say(text);
  if (asked.then === "next") document.getElementById("h-case")?.focus();
}

/** @param {HTMLFormElement} form @param {number} status @param {{detail?: string, request_id?: string, errors?: {pointer?: string, message?: string}[]}} problem */
async function refused(form, status, problem) {
  if (status === GONE) {
    const back = encodeURIComponent(location.pathname + location.search);
    return say(words.signedOut ?? "", true, `/console/sign-in?next=${back}`, words.signIn);
  }
  const text = [problem.detail, ...(problem.errors ?? []).map((one) => one.message)].filter(Boolean);
  if (STALE.includes(status)) {
    if ("draft" in form.dataset) keep(draft, form);
    await refresh();
    return say(`${[...new Set(text)].join(" ")} ${words.changed}`, true);
  }
  say(`${words.refused} ${[...new Set(text)].join(" ")} (${problem.request_id ?? status})`, true);
  const pointer = problem.errors?.[0]?.pointer?.slice(1).split("/")[0];
  const field = pointer ? form.elements.namedItem(pointer) : null;
  if (field instanceof HTMLElement) field.focus();
}

/** @param {number} step */
async function go(step) {
  const page = await neighbour(step, words);
  if (page) leave(page, "");
  else say(words.noFurther ?? "");
}

/** @param {string} path */
async function reveal(path) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" }).catch(() => null);
  const body = await answer?.json().catch(() => null);
  const number = place.querySelector("[data-slot=number]");
  if (!answer?.ok || !number) return say(`${words.refused} ${body?.detail ?? words.offline}`, true);
  number.textContent = body.number;
}

/** Make the parts work that are new. */
function begin() {
  enable(place);
  const form = place.querySelector("form[data-draft]");
  if (form instanceof HTMLFormElement) {
    restore(draft, form);
    choose(form);
  }
  localise(place);
}

place.addEventListener("submit", (event) => {
  if (!(event.target instanceof HTMLFormElement)) return;
  event.preventDefault();
  send(event.target, event.submitter);
});
place.addEventListener("input", (event) => {
  const form = event.target instanceof Element ? event.target.closest("form") : null;
  if (!form || !("draft" in form.dataset)) return;
  keep(draft, form);
  choose(form);
});
place.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("button") : null;
  if (button?.dataset.reveal) reveal(button.dataset.reveal);
  if (button?.dataset.step) go(Number(button.dataset.step));
  if (button?.dataset.copy) navigator.clipboard?.writeText(button.dataset.copy).then(() => say(words.copied ?? ""), () => {});
});
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    const form = place.querySelector("form#conclude");
    const end = /** @type {HTMLElement | null} */ (form?.querySelector(".end") ?? null);
    if (form instanceof HTMLFormElement) form.requestSubmit(end);
    return;
  }
  if (!isShortcut(event)) return;
  const wanted = place.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
  if (!(wanted instanceof HTMLElement)) return;
  event.preventDefault();
  wanted.focus();
  if (!(wanted instanceof HTMLTextAreaElement)) wanted.click();
});

begin();
for (const viewer of place.querySelectorAll("[data-viewer]")) enlarge(/** @type {HTMLElement} */ (viewer));
lightUp(place);
fetchWhenSeen(place, words.unseen ?? "", (shot) => {
  const looked = place.querySelector("[data-slot=looked]");
  if (!(looked instanceof HTMLElement) || "seen" in shot.dataset || shot.closest(".strip")) return;
  looked.dataset.count = String(Number(looked.dataset.count) + 1);
  looked.textContent = (looked.dataset.form ?? "").replace("%s", looked.dataset.count);
});
const arrived = arrive();
if (arrived) {
  say(arrived);
  document.getElementById("h-case")?.focus();
}
