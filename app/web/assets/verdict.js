/** What the server found on a picture, what the person may do with it, and which document it shows. */

import { action, actions, hasText, one, say, slot } from "./frame.js";

/** Show what was found. @param {import("./api.js").Seen} seen */
export function verdict(seen) {
  const keys = seen.reasons.map((reason) => `reason.${reason.code}`);
  const items = keys.map((key) => item(hasText(key) ? key : "check.bad", "alert"));
  slot("verdicts").replaceChildren(...(seen.accepted ? [item("check.good", "check")] : items));
  offer(seen.accepted ? "good" : "bad");
}

/** @param {string} key @param {string} sign */
function item(key, sign) {
  const element = document.createElement("li");
  const words = document.createElement("span");
  if (sign === "alert") element.className = "bad";
  say(words, key);
  element.append(icon(sign), words);
  return element;
}

/** Offer what fits; the main thing to do has the focus. @param {"sending" | "good" | "bad"} state */
export function offer(state) {
  slot("progress-bar").hidden = state !== "sending";
  const [use, anyway] = actions("use");
  if (use) use.hidden = state !== "good";
  if (anyway) anyway.hidden = state !== "bad";
  one(".aftermath").hidden = state !== "bad";
  const again = action("again");
  again.className = `button wide ${state === "bad" ? "main" : "side"}`;
  if (state !== "sending") (state === "bad" ? again : (use ?? again)).focus();
}

/** Draw an icon. @param {string} name */
function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/**
 * Let the person choose the document where there are several.
 * @param {import("./api.js").Kind[]} kinds @param {boolean} asked
 */
export function offerKinds(kinds, asked) {
  const field = slot("kinds");
  field.hidden = !asked || kinds.length < 2;
  if (field.querySelector("label") !== null) return;
  for (const kind of kinds) {
    const label = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "radio", name: "kind", value: kind.code });
    input.checked = kind === kinds[0];
    const words = document.createElement("span");
    words.textContent = kind.display_name;
    label.append(input, words);
    field.append(label);
  }
}
