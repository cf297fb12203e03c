/** The decision about a case: what its form says, what it shows, and which case comes next. */

/**
 * The body that a form says; `names` are the fields of a button that sends only some of them.
 * @param {HTMLFormElement} form @param {string | undefined} names
 */
export function bodyOf(form, names) {
  const chosen = new FormData(form);
  const wanted = names?.split(" ");
  /** @type {Record<string, string | string[] | boolean | object[]>} */
  const body = {};
  for (const name of new Set(chosen.keys())) {
    const values = chosen.getAll(name).map(String).filter(Boolean);
    if (wanted && !wanted.includes(name)) continue;
    if (name === "judged_days") continue;
    if (name === "dispositions") {
      if (chosen.get("outcome") === "APPROVE") body[name] = judged(values, Number(chosen.get("judged_days")));
    } else if (name === "livemode") body[name] = values[0] === "true";
    else if (name === "reason_codes") body[name] = chosen.get("outcome") === "APPROVE" ? [] : [...new Set(values)];
    else if (values[0] && (name !== "flow_id" || chosen.get("outcome") === "REQUEST_INPUT")) body[name] = values[0];
  }
  return body;
}

/**
 * The listed entries that are somebody else, each as "list entity", for some days.
 * @param {string[]} entries @param {number} days
 */
function judged(entries, days) {
  const until = new Date(Date.now() + days * 86_400_000).toISOString();
  return entries.map((entry) => {
    const [list] = entry.split(" ", 1);
    return { list, entity_id: entry.slice(String(list).length + 1), expires_at: until };
  });
}

/** Show what belongs to the chosen outcome. @param {HTMLFormElement} form */
export function choose(form) {
  const outcome = String(new FormData(form).get("outcome") ?? "");
  for (const one of form.querySelectorAll("[data-for]")) one.toggleAttribute("hidden", !one.getAttribute("data-for")?.split(" ").includes(outcome));
  let style = "";
  for (const label of form.querySelectorAll(".choices label")) {
    const chosen = label.querySelector("input")?.checked ?? false;
    if (chosen) style = label.classList[0] ?? "";
    label.classList.toggle("chosen", chosen);
  }
  const end = form.querySelector(".end");
  if (!end) return;
  end.className = `button wide end ${style}`;
  end.setAttribute("aria-disabled", String(!outcome));
}

/**
 * Return the page of a case beside this one in the queue; 0 is the most urgent one the reviewer may take.
 * @param {number} step @param {DOMStringMap} words @returns {Promise<string | null>}
 */
export async function neighbour(step, words) {
  const listed = await fetch(`/v1/control/review-cases?order=due&limit=100&livemode=${words.livemode}`).catch(() => null);
  /** @type {{review_case_id: string, assignee: string | null, first_conclusion: {reviewer_id: string} | null}[]} */
  const cases = listed?.ok ? (await listed.json()).review_cases : [];
  const free = cases.filter((one) => one.review_case_id !== words.case && [null, words.me].includes(one.assignee) && one.first_conclusion?.reviewer_id !== words.me);
  const found = step ? cases[cases.findIndex((one) => one.review_case_id === words.case) + step] : free[0];
  if (!found || found.review_case_id === words.case) return null;
  return pageOf(found.review_case_id, words);
}

/** @param {string} id @param {DOMStringMap} words */
export function pageOf(id, words) {
  const page = new URL(words.queue ?? "", location.href);
  page.pathname += `/${id}`;
  return page.href;
}
