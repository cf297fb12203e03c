/** The texts of the console, from the file that the server uses too. */

/** @type {Record<string, string>} */
const texts = await (await fetch(document.body.dataset.texts ?? "")).json();

/** Return a text with its names filled in. @param {string} key @param {Record<string, string | number>} [named] */
export function say(key, named = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => String(named[name] ?? whole));
}
