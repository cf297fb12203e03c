/** Speaks to /v1/capture with the session's token; what the network loses is sent again. */

/** @typedef {{code: string, message: string}} Reason */
/** @typedef {{accepted: boolean, reasons: Reason[]}} Seen */
/** @typedef {{code: string, display_name: string}} Kind */
/**
 * @typedef {object} View
 * @property {string} session_id
 * @property {string} status
 * @property {Kind[]} documents
 * @property {{notice_version: string, text: string, locale: string, accepted_at: string | null}} consent
 * @property {Seen | null} document
 * @property {Seen | null} selfie
 * @property {Reason[]} retry_reasons
 * @property {string | null} return_url
 * @property {{outcome: "VERIFIED" | "IN_REVIEW" | "NOT_VERIFIED", message: string} | null} result
 * @property {{name: string}} tenant
 * @property {string | null} session_locale
 * @property {{step: string, state: "TODO" | "DONE"}[]} steps
 * @property {{max_bytes: number, longest_side_px: number, jpeg_quality: number}} limits
 * @property {{what: "DOCUMENT" | "FACE", until: string}[]} kept
 */
/** @typedef {{status: number, body: any, etag: string | null}} Answer */

const LONGEST_WAIT_S = 15;
const QUIET_S = 120;

/** An answer that says no for good. */
export class Refusal extends Error {
  /** @param {number} status @param {string} code */
  constructor(status, code) {
    super(code);
    this.status = status;
    this.code = code;
  }
}

/** A request that may succeed when it is sent again. */
class Lost extends Error {
  /** @param {"offline" | "busy"} why @param {number} [after] */
  constructor(why, after) {
    super(why);
    this.why = why;
    this.after = after;
  }
}

/** The interface of one session. */
export class Api {
  #etag = "";

  /** @param {string} token @param {(why: "offline" | "busy" | null) => void} onNetwork */
  constructor(token, onNetwork) {
    this.token = token;
    this.onNetwork = onNetwork;
    /** The language of the answers. @type {string | null} */
    this.language = null;
  }

  /** Read how the session stands. @returns {Promise<View>} */
  async look() {
    const answer = await this.#persist(() => this.#ask("GET", ""));
    this.#etag = answer.etag ?? "";
    return answer.body;
  }

  /** Read it if it has changed, without trying again. @returns {Promise<View | null>} */
  async lookAgain() {
    const answer = await this.#ask("GET", "", undefined, { "If-None-Match": this.#etag });
    if (answer.status === 304) return null;
    this.#etag = answer.etag ?? "";
    return answer.body;
  }

  /** @param {string} path @param {object} body @returns {Promise<any>} */
  async post(path, body) {
    return (await this.#persist(() => this.#ask("POST", path, JSON.stringify(body)))).body;
  }

  /** @returns {Promise<{url: string, qr_svg: string, expires_at: string}>} */
  async link() {
    return (await this.#persist(() => this.#ask("GET", "/link"))).body;
  }

  /**
   * Send a picture until it has arrived, or `signal` ends it.
   * @param {"document" | "selfie"} what @param {Blob} picture @param {"CAMERA" | "UPLOAD"} source
   * @param {(share: number) => void} onProgress @param {AbortSignal} signal @returns {Promise<Seen>}
   */
  async put(what, picture, source, onProgress, signal) {
    const once = () => this.#upload(`/v1/capture/${what}`, picture, source, onProgress, signal);
    return (await this.#persist(once, signal)).body;
  }

  /** Send a frame of a movement. @param {number} step @param {Blob} frame @returns {Promise<any>} */
  async frame(step, frame) {
    const type = { "Content-Type": "image/jpeg" };
    return (await this.#persist(() => this.#ask("PUT", `/challenge/${step}`, frame, type))).body;
  }

  /** @param {() => Promise<Answer>} once @param {AbortSignal} [signal] @returns {Promise<Answer>} */
  async #persist(once, signal) {
    for (let wait = 1; ; wait = Math.min(wait * 2, LONGEST_WAIT_S)) {
      try {
        const answer = await once();
        this.onNetwork(null);
        return answer;
      } catch (error) {
        if (!(error instanceof Lost)) {
          this.onNetwork(null);
          throw error;
        }
        signal?.throwIfAborted();
        this.onNetwork(error.why);
        await pause(error.after ?? wait);
        signal?.throwIfAborted();
      }
    }
  }

  /**
   * @param {string} method @param {string} path @param {string | Blob} [body] @param {Record<string, string>} [more]
   * @returns {Promise<Answer>}
   */
  async #ask(method, path, body, more = {}) {
    const headers = { ...this.#headers(), ...(body ? { "Content-Type": "application/json" } : {}), ...more };
    /** @type {Response} */
    let answer;
    try {
      const signal = AbortSignal.timeout(QUIET_S * 1000);
      answer = await fetch(`/v1/capture${path}`, { method, headers, body, signal, cache: "no-store", credentials: "omit" });
      if (answer.status === 304) return { status: 304, body: null, etag: null };
      return judge(answer.status, (name) => answer.headers.get(name), await answer.text());
    } catch (error) {
      if (error instanceof Refusal || error instanceof Lost) throw error;
      throw new Lost("offline");
    }
  }

  /**
   * @param {string} path @param {Blob} picture @param {string} source @param {(share: number) => void} onProgress
   * @param {AbortSignal} signal @returns {Promise<Answer>}
   */
  #upload(path, picture, source, onProgress, signal) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("PUT", path);
      const headers = { ...this.#headers(), "Content-Type": picture.type, "Capture-Source": source };
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      request.timeout = QUIET_S * 1000;
      request.upload.onprogress = (event) => onProgress(event.loaded / event.total);
      request.onerror = request.ontimeout = request.onabort = () => reject(new Lost("offline"));
      request.onload = () => {
        try {
          resolve(judge(request.status, (name) => request.getResponseHeader(name), request.responseText));
        } catch (error) {
          reject(error);
        }
      };
      signal.addEventListener("abort", () => request.abort(), { once: true });
      request.send(picture);
    });
  }

  #headers() {
    /** @type {Record<string, string>} */
    const headers = { Authorization: `Bearer ${this.token}` };
    if (this.language !== null) headers["Accept-Language"] = this.language;
    return headers;
  }
}

/** Return a usable answer, or throw what became of it. @param {number} status @param {(name: string) => string | null} header @param {string} body */
function judge(status, header, body) {
  const json = /json/.test(header("Content-Type") ?? "");
  const after = Number(header("Retry-After")) || undefined;
  if (status === 429 || status >= 500 || !json) throw new Lost("busy", after); // or a proxy's page
  let value;
  try {
    value = JSON.parse(body);
  } catch {
    throw new Lost("busy", after); // it was cut off
  }
  if (status >= 400) throw new Refusal(status, value.code);
  return { status, body: value, etag: header("ETag") };
}

/** Wait, at most until the device says that it is online again. @param {number} seconds @returns {Promise<void>} */
function pause(seconds) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      resolve();
    };
    const timer = setTimeout(end, seconds * 1000);
    addEventListener("online", end);
  });
}
