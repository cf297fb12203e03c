/** Follows what is done on another device, while the page waits for the person. */

import { Refusal } from "./api.js";
import { journey, show, shown } from "./frame.js";

const OPEN = ["CREATED", "STARTED"];

/** Look once, and go on where the session has. @param {import("./capture.js").Session} session */
export async function follow(session) {
  const before = shown.screen;
  if (!["hand", "consent"].includes(before) || document.hidden) return;
  const found = await session.api.lookAgain().catch((error) => {
    if (error instanceof Refusal) show("ended");
    return null;
  });
  if (found === null || shown.screen !== before) return;
  if (before === "consent" && session.view().consent.accepted_at !== null) return; // given here, the next step is coming
  if (before !== "hand" || found.result !== null || !OPEN.includes(found.status)) {
    session.arrived(found);
    return;
  }
  shown.step = found.steps.find((step) => step.state === "TODO")?.step ?? shown.step;
  journey(found.steps);
}
