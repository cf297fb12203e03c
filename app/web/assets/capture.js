/** The capture page: which step is shown, from consent to result. */

import { Api, Refusal } from "./api.js";
import { entitle, introduce, journey, languages, network, notice, one, show, shown, stored, token, useLanguage } from "./frame.js";

/** @typedef {import("./api.js").View} View */
/**
 * What the modules of the steps need.
 * @typedef {{api: Api, view: () => View, arrived: (found: View) => void, taken: (step: string) => void, refresh: () => Promise<void>}} Session
 */

const LANGUAGE = "veristream.language";
const UNDER_WAY = ["SUBMITTED", "PROCESSING"];
const POLL_MS = 2000;
const FOLLOW_MS = 4000;

const api = new Api("", network);

/** The steps that the person has done here. @type {Set<string>} */
const done = new Set();

/** @type {View | null} */
let view = null;
/** @type {import("./taking.js").Taking | null} */
let taking = null;
/** @type {import("./moving.js").Moving | null} */
let moving = null;

/** @type {Session} */
const session = { api, view: present, arrived, taken, refresh };

function present() {
  if (view === null) throw new Error("nothing was read yet");
  return view;
}

/** @param {string} step */
function taken(step) {
  done.add(step);
  if (step === "SELFIE") return void refresh(); // only the server knows whether movements are asked for
  route(present());
}

/** Read the session and go where the person is. */
async function refresh() {
  await api.look().then(arrived, refused);
}

/** @param {View} found */
function arrived(found) {
  if (found.document === null && found.selfie === null && found.retry_reasons.length > 0) done.clear();
  view = found;
  introduce(found);
  route(found);
}

/** @param {unknown} error */
function refused(error) {
  stop();
  show(error instanceof Refusal ? "ended" : "failed");
}

function stop() {
  taking?.end();
  moving?.end();
}

/** Show the step that comes next. @param {View} found */
function route(found) {
  place(found);
  journey(found.steps);
}

/** @param {View} found */
function place(found) {
  if (found.result !== null || UNDER_WAY.includes(found.status)) stop();
  if (found.result !== null) return void ended(found);
  if (UNDER_WAY.includes(found.status)) return wait();
  if (!["CREATED", "STARTED"].includes(found.status)) return show("ended");
  if (found.consent.accepted_at === null) return notice(found);
  const next = found.steps.find((step) => step.state === "TODO" && !done.has(step.step))?.step ?? "RESULT";
  shown.step = next;
  if (next === "DOCUMENT" || next === "SELFIE") return void take(next === "SELFIE" ? "selfie" : "document");
  if (next === "MOVEMENTS") return void move().catch(refused);
  if (next === "NUMBER") return void send("askNumber");
  show("waiting");
  return void send("submit");
}

/** @param {boolean} accepted */
async function decide(accepted) {
  const { notice_version, locale } = present().consent;
  try {
    const found = await api.post("/consent", { notice_version, accepted, locale });
    if (!accepted) show("declined");
    else if (present().consent.accepted_at === null) arrived(found); // else the page has looked meanwhile, and gone on
  } catch (error) {
    if (error instanceof Refusal && error.status === 422) await refresh();
    else refused(error);
  }
}

/** @param {"document" | "selfie"} what */
async function take(what) {
  try {
    const { Taking } = await import("./taking.js");
    taking ??= new Taking(session);
    await taking.begin(what);
  } catch (error) {
    refused(error);
  }
}

async function move() {
  const { Moving } = await import("./moving.js");
  moving ??= new Moving(session);
  if (shown.screen !== "movements") moving.begin();
}

/** @param {"askNumber" | "submit"} what */
async function send(what) {
  await import("./sending.js").then((module) => module[what](session)).catch(refused);
}

function wait() {
  show("waiting", "RESULT");
  setTimeout(() => shown.screen === "waiting" && refresh(), POLL_MS);
}

/** @param {View} found */
async function ended(found) {
  await import("./ending.js").then(({ result }) => result(found), refused);
  journey(found.steps);
}

async function handOver() {
  stop();
  await import("./handing.js").then((module) => module.handOver(api)).catch(refused);
}

/** @type {Record<string, () => unknown>} */
const ACTIONS = {
  agree: () => decide(true),
  decline: () => decide(false),
  consent: refresh,
  retry: () => (view === null || shown.screen === "failed" ? location.reload() : refresh()), // some browsers never load a failed module again
  stay: refresh,
  camera: () => taking?.start(),
  shoot: () => taking?.shoot(),
  light: () => taking?.light(),
  flip: () => taking?.flip(),
  use: () => taking?.use(),
  again: () => taking?.begin(taking.what),
  move: () => moving?.start(false).catch(refused),
  "move-slowly": () => moving?.start(true).catch(refused),
  "cannot-move": () => moving?.skip().catch(refused),
  selfie: () => (moving?.end(), take("selfie")),
  "hand-over": handOver,
};

async function followed() {
  const { follow } = await import("./following.js");
  await follow(session);
}

async function choose() {
  const code = languages().value;
  await useLanguage(code);
  api.language = code;
  stored(LANGUAGE, code);
  if (view?.result) await ended(view);
  one(".foreign").hidden = view?.consent.locale === code;
  entitle();
}

async function begin() {
  api.token = token();
  const drawn = document.documentElement.lang;
  const before = stored(LANGUAGE);
  try {
    const [, found] = await Promise.all([useLanguage(before ?? drawn), api.look()]);
    const asked = found.session_locale?.split("-")[0] ?? "";
    if (before === null && asked !== "" && asked !== drawn) await useLanguage(asked);
    api.language = document.documentElement.lang;
    arrived(found);
  } catch (error) {
    refused(error);
  }
}

document.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-action]"));
  ACTIONS[button?.dataset["action"] ?? ""]?.();
});
languages().addEventListener("change", () => choose().catch(() => (languages().value = document.documentElement.lang)));
addEventListener("hashchange", () => location.hash !== "" && location.reload());
addEventListener("pagehide", stop);
addEventListener("pageshow", (event) => event.persisted && location.reload());
setInterval(() => followed().catch(() => undefined), FOLLOW_MS);
begin();
