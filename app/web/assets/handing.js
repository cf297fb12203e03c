/** Hands the session over to another device. */

import { action, say, show, slot } from "./frame.js";

/** Show the code and the link. @param {import("./api.js").Api} api */
export async function handOver(api) {
  const link = await api.link();
  const drawn = URL.createObjectURL(new Blob([link.qr_svg], { type: "image/svg+xml" }));
  const image = slot("qr");
  image.addEventListener("load", () => URL.revokeObjectURL(drawn), { once: true });
  image.setAttribute("src", drawn);
  const until = new Date(link.expires_at);
  say(slot("hand-alone"), "hand.alone", {
    until: until.toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" }),
  });
  slot("copied").textContent = "";
  action("copy").onclick = async () => {
    try {
      await navigator.clipboard.writeText(link.url);
      say(slot("copied"), "hand.copied");
    } catch {
      slot("copied").textContent = link.url;
    }
  };
  show("hand");
}
