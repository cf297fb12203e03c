/** The texts of the console, from the file that the server uses too. */

/** @type {Record<string, string>} */
let texts = {};

/** Resolves when the texts are there; when they cannot be had, their keys stand for them and the page works. */
export const loaded = fetch(document.body.dataset.texts ?? "")
  .then((answer) => answer.json())
  .then((found) => void (texts = found), () => {});

/** Return a text with its names filled in. @param {string} key @param {Record<string, string | number>} [named] */
export function say(key, named = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => String(named[name] ?? whole));
}
