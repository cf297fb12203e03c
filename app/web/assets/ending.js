/** The result: what it is, until when pictures are stored, a reference. */

import { say, show, slot, text } from "./frame.js";

const ICONS = { VERIFIED: ["ok", "check"], IN_REVIEW: ["wait", "eye"], NOT_VERIFIED: ["plain", "cross"] };

/** Show how the session ended. @param {import("./api.js").View} view */
export function result(view) {
  const outcome = view.result?.outcome ?? "IN_REVIEW";
  const [look = "", sign = ""] = ICONS[outcome];
  const key = `result.${outcome.toLowerCase()}`;
  slot("outcome").className = `outcome ${look}`;
  slot("outcome-icon").setAttribute("href", `#i-${sign}`);
  say(slot("result-title"), key);
  say(slot("result-lead"), `${key}_lead`);
  const rows = view.kept.map((one) => {
    const date = new Date(one.until).toLocaleDateString(document.documentElement.lang, { dateStyle: "long" });
    return row(`kept.${one.what.toLowerCase()}`, text("kept.until", { date }));
  });
  slot("receipt").replaceChildren(...rows, row("result.reference", view.session_id));
  show("result", "RESULT");
}

/** @param {string} key @param {string} value */
function row(key, value) {
  const group = document.createElement("div");
  const term = document.createElement("dt");
  const words = document.createElement("dd");
  say(term, key);
  words.textContent = value;
  group.append(term, words);
  return group;
}
