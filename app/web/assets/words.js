/** The texts that scripts say; the page carries them. */

/** @type {Record<string, string>} */
const texts = JSON.parse(document.body.dataset.words ?? "{}");

/** Return a text with its names filled in. @param {string} key @param {Record<string, string | number>} [named] */
export function say(key, named = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => String(named[name] ?? whole));
}
