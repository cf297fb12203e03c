/** The page's words, its screens, and the elements in them that scripts fill. */

/** @typedef {Record<string, string>} Values */

const TOKEN = "veristream.token";
const [SETTLED_MS, SPOKEN_MS] = [300, 5000];

/** @type {Record<string, string>} */
let texts = {};

/** The names that may stand in any text. @type {Values} */
export const standing = { tenant: "" };

/**
 * Return a text with its values; an unknown key is its own text.
 * @param {string} key @param {Values} [values]
 */
export function text(key, values = {}) {
  const known = { ...standing, ...values };
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => known[name] ?? whole);
}

/** Return whether there is such a text. @param {string} key */
export function hasText(key) {
  return key in texts;
}

/**
 * Let an element say a text, in whatever language is chosen later too.
 * @param {HTMLElement} element @param {string} key @param {Values} [values]
 */
export function say(element, key, values = {}) {
  element.dataset.text = key;
  element.dataset.values = JSON.stringify(values);
  element.textContent = text(key, values);
}

/** Let every element that names a key say it. */
export function fill() {
  for (const one of document.querySelectorAll("[data-text]")) {
    const element = /** @type {HTMLElement} */ (one);
    element.textContent = text(element.dataset.text ?? "", JSON.parse(element.dataset.values ?? "{}"));
  }
  for (const one of document.querySelectorAll("[data-label]")) {
    one.setAttribute("aria-label", text(/** @type {HTMLElement} */ (one).dataset.label ?? ""));
  }
  for (const one of document.querySelectorAll("[data-alt]")) {
    one.setAttribute("alt", text(/** @type {HTMLElement} */ (one).dataset.alt ?? ""));
  }
}

/** The list of languages. */
export function languages() {
  return /** @type {HTMLSelectElement} */ (document.querySelector("#language"));
}

/** Load a language and say everything in it; an unknown one changes nothing. @param {string} code */
export async function useLanguage(code) {
  const option = [...languages().options].find((one) => one.value === code);
  if (option === undefined) return;
  const answer = await fetch(option.dataset.texts ?? "");
  if (!answer.ok) throw new Error("no texts");
  texts = await answer.json();
  languages().value = code;
  document.documentElement.lang = code;
  document.documentElement.dir = option.dataset.dir ?? "ltr";
  fill();
}

/** @typedef {import("./api.js").View} View */

/** @param {string} selector */
export const one = (selector) => /** @type {HTMLElement} */ (document.querySelector(selector));

/** @param {string} selector */
const all = (selector) => /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]);

/** @param {string} name */
export const slot = (name) => one(`[data-slot="${name}"]`);

/** @param {string} name */
export const slots = (name) => all(`[data-slot="${name}"]`);

/** The buttons of an action. @param {string} name */
export const actions = (name) => /** @type {HTMLButtonElement[]} */ (all(`[data-action="${name}"]`));

/** @param {string} name */
export const action = (name) => /** @type {HTMLButtonElement} */ (one(`[data-action="${name}"]`));

/** Which screen is shown, and the step it is part of. */
export const shown = { screen: "start", step: "CONSENT" };

/** Show one screen, and let those who listen hear its headline. @param {string} screen @param {string} [step] */
export function show(screen, step = shown.step) {
  const changed = shown.screen !== screen;
  Object.assign(shown, { screen, step });
  for (const section of all("[data-screen]")) section.hidden = section.dataset["screen"] !== screen;
  const headline = entitle();
  if (!changed) return;
  scrollTo(0, 0);
  headline.tabIndex = -1;
  headline.focus({ preventScroll: true });
  sayWhere();
}

let saying = 0;

/** Say step, headline and notes once the screen stays: some readers are silent where the focus leaves what has gone. */
export function sayWhere() {
  clearTimeout(saying);
  saying = setTimeout(() => {
    const said = all(`[data-screen="${shown.screen}"] :is(h1:not([aria-live]), [data-said]:not([hidden]))`);
    slot("where").textContent = [slot("progress"), ...said].map((each) => each.textContent?.replace(/\.$/, "")).join(". ");
    saying = setTimeout(() => (slot("where").textContent = ""), SPOKEN_MS); // it is for the ear, not for who reads on
  }, SETTLED_MS);
}

/** Give the document the headline of its screen as title. */
export function entitle() {
  const headline = one(`[data-screen="${shown.screen}"] h1`);
  document.title = headline.textContent ?? "";
  return headline;
}

/** Draw where the person is among the steps. @param {View["steps"]} steps */
export function journey(steps) {
  const at = steps.findIndex((step) => step.step === shown.step);
  const items = steps.map((step, index) => {
    const item = document.createElement("li");
    item.className = index < at ? "done" : index === at ? "now" : "";
    if (index === at) item.setAttribute("aria-current", "step");
    say(item, `step.${step.step.toLowerCase()}`);
    return item;
  });
  slot("journey").replaceChildren(...items);
  if (at >= 0) say(slot("progress"), "progress", { step: String(at + 1), steps: String(steps.length) });
}

/** Say what is wrong with the network; null: nothing. @param {"offline" | "busy" | null} why */
export function network(why) {
  slot("banner").hidden = why === null;
  if (why !== null) say(slot("banner-text"), `network.${why}`);
}

/** Name the tenant, and lead back to it. @param {View} view */
export function introduce(view) {
  if (standing["tenant"] !== view.tenant.name) name(view.tenant.name);
  for (const link of /** @type {HTMLAnchorElement[]} */ (slots("return"))) {
    link.hidden = view.return_url === null;
    if (view.return_url !== null) link.href = returning(view.return_url, view.session_id);
  }
  for (const item of all("[data-needs]")) {
    item.hidden = !view.steps.some((step) => step.step === item.dataset["needs"]);
  }
}

/** Say the tenant's name wherever it stands; once, for a screen reader hears every text that is written anew. @param {string} tenant */
function name(tenant) {
  standing["tenant"] = tenant;
  slot("tenant").textContent = tenant;
  slot("initial").textContent = [...tenant][0] ?? "";
  say(slot("foot"), "foot");
  fill();
}

/** @param {string} address @param {string} id */
function returning(address, id) {
  const url = new URL(address);
  url.searchParams.set("session_id", id);
  return url.href;
}

/** Store a value for this tab, or read it; null where storage is refused. @param {string} name @param {string} [value] */
export function stored(name, value) {
  try {
    if (value !== undefined) sessionStorage.setItem(name, value);
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Show the notice and ask whether the person agrees. @param {View} found */
export function notice(found) {
  const shownNotice = slot("notice");
  shownNotice.textContent = found.consent.text;
  shownNotice.lang = found.consent.locale;
  shownNotice.dir = "auto";
  one(".foreign").hidden = found.consent.locale === document.documentElement.lang;
  show("consent", "CONSENT");
}

/** Return the session's token, which leaves the address bar where it can be stored against a reload. */
export function token() {
  const given = location.hash.slice(1);
  if (given === "") return stored(TOKEN) ?? "";
  if (stored(TOKEN, given) === given) history.replaceState(null, "", location.pathname);
  return given;
}
