/** Calls routes of the interface with the reviewer's cookie; every change of the console goes this way. */

const QUIET_MS = 60_000;

/** An answer that is no success, or none at all. */
export class Problem extends Error {
  /** @param {number} status @param {string} code @param {string} detail @param {number} after @param {{pointer?: string, message?: string}[]} [errors] */
  constructor(status, code, detail, after, errors = []) {
    super([...new Set([detail, ...errors.map((one) => one.message)])].filter(Boolean).join(" "));
    /** The place in the body that is wrong, if one is. */
    this.pointer = errors[0]?.pointer ?? "";
    this.status = status;
    this.code = code;
    /** Seconds until another try makes sense. */
    this.after = after;
    /** What is wrong with which field. @type {{pointer?: string, message?: string}[]} */
    this.errors = errors;
  }
}

/** A key that no other request has; `randomUUID` would need https. */
export function freshKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
}

/** What wants to know that the service has heard of the person. @type {Set<() => void>} */
export const heard = new Set();

/**
 * Send a request; the answer's JSON, or null when it has none.
 * @param {string} method @param {string} path @param {object} [body] @param {Record<string, string>} [more]
 * @returns {Promise<any>}
 */
export async function call(method, path, body, more = {}) {
  const headers = body === undefined ? more : { "Content-Type": "application/json", ...more };
  /** @type {Response} */
  let answer;
  try {
    const signal = AbortSignal.timeout(QUIET_MS);
    const sent = body === undefined ? undefined : JSON.stringify(body);
    answer = await fetch(path, { method, headers, body: sent, signal, cache: "no-store", credentials: "same-origin" });
  } catch {
    throw new Problem(0, "OFFLINE", "", 0);
  }
  const after = Number(answer.headers.get("Retry-After")) || 0;
  if (answer.status === 204) {
    for (const one of heard) one();
    return null;
  }
  const json = /json/.test(answer.headers.get("Content-Type") ?? "");
  const value = json ? await answer.json().catch(() => null) : null;
  if (!answer.ok || value === null) throw new Problem(answer.status, value?.code ?? "NO_ANSWER", value?.detail ?? "", after, value?.errors);
  for (const one of heard) one();
  return value;
}

/** Let what needs scripts be seen and pressed. @param {ParentNode} within */
export function enable(within) {
  for (const one of within.querySelectorAll("[data-scripted]")) {
    one.removeAttribute("hidden");
    one.removeAttribute("disabled");
  }
}
