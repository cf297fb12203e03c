/** The steps with a picture: camera or upload, then what the server finds on it. */

import { Refusal } from "./api.js";
import { Blocked, Camera } from "./camera.js";
import { action, say, sayWhere, show, shown, slot, slots } from "./frame.js";
import { Unusable, open, shrink } from "./picture.js";
import { offer, offerKinds, verdict } from "./verdict.js";

/** @typedef {import("./capture.js").Session} Session */

const IDLE_MS = 600_000;
const INPUT = ["click", "keydown", "pointermove", "change"];

/** What is being taken, and the way it went so far. */
export class Taking {
  /** @type {Camera | null} */
  #camera = null;
  #sending = new AbortController();
  #shown = "";
  #shooting = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #idle;
  /** @type {"document" | "selfie"} */
  what = "document";

  /** @param {Session} session */
  constructor(session) {
    this.session = session;
    for (const name of INPUT) document.addEventListener(name, () => this.#touched(), { passive: true });
    this.#touched();
    for (const input of slots("file")) {
      input.addEventListener("change", () => this.#chosen(/** @type {HTMLInputElement} */ (input)));
    }
  }

  /** Show the step, with its camera. @param {"document" | "selfie"} what */
  async begin(what) {
    this.end();
    this.what = what;
    say(slot("camera-title"), `camera.${what}`);
    say(slot("camera-lead"), `camera.${what}_lead`);
    slot("viewer").className = `viewer ${what === "document" ? "document" : "face"}`;
    for (const input of slots("file")) input.setAttribute("capture", what === "document" ? "environment" : "user");
    offerKinds(this.session.view().documents, what === "document");
    const again = this.session.view().retry_reasons[0];
    if (again) this.#note("retry.lead", { reason: again.message });
    else for (const note of slots("note")) note.hidden = true;
    show("camera");
    await this.start();
  }

  /** Start the camera, or say why there is none and what else there is. */
  async start() {
    this.#camera?.stop();
    const camera = (this.#camera = new Camera(/** @type {HTMLVideoElement} */ (slot("video")), this.what, {
      guide: (key) => this.#guide(key),
      steady: () => this.shoot(),
      blocked: (why) => this.#blocked(why),
    }));
    this.#guide(this.what === "document" ? "guide.aim" : "guide.face");
    try {
      await camera.start();
    } catch (error) {
      if (!(error instanceof Blocked)) throw error;
      if (camera === this.#camera) this.#blocked(error.message);
      return;
    }
    if (camera !== this.#camera) return camera.stop();
    show("camera");
    this.#offer();
    slot("flip").hidden = (await navigator.mediaDevices.enumerateDevices()).filter((one) => one.kind === "videoinput").length < 2;
  }

  /** Offer what the camera that has just begun can do; its light is off. */
  #offer() {
    action("shoot").disabled = this.#camera === null;
    slot("light").hidden = !this.#camera?.hasLight;
    slot("light").setAttribute("aria-pressed", "false");
  }

  /** Stop the camera, drop the picture and stop sending it. */
  end() {
    this.#camera?.stop();
    this.#camera = null;
    this.#sending.abort();
    if (this.#shown !== "") URL.revokeObjectURL(this.#shown);
    this.#shown = "";
    slot("photo").removeAttribute("src");
    action("shoot").disabled = true;
  }

  /** Take the picture that the camera shows. */
  async shoot() {
    const camera = this.#camera;
    if (camera === null || this.#shooting) return;
    this.#shooting = true;
    try {
      await this.#check(await camera.shoot(), "CAMERA");
    } finally {
      this.#shooting = false;
    }
  }

  /** Switch the light. */
  async light() {
    const on = slot("light").getAttribute("aria-pressed") !== "true";
    await this.#camera?.light(on);
    slot("light").setAttribute("aria-pressed", String(on));
  }

  /** Use the other camera. */
  async flip() {
    action("shoot").disabled = true;
    await this.#camera?.flip().catch((error) => this.#blocked(error.message));
    this.#offer();
  }

  /** Take the picture that was judged as it is. */
  use() {
    this.end();
    this.session.taken(this.what.toUpperCase());
  }

  /** @param {HTMLInputElement} input */
  async #chosen(input) {
    const file = input.files?.[0];
    input.value = "";
    if (file === undefined) return;
    try {
      await this.#check(await open(file), "UPLOAD");
    } catch (error) {
      if (!(error instanceof Unusable)) throw error;
      this.#refused(`picture.${error.message}`);
    }
  }

  /** Show a picture, send it, and say what was found. @param {ImageBitmap} picture @param {"CAMERA" | "UPLOAD"} source */
  async #check(picture, source) {
    const blob = await shrink(picture, this.session.view().limits);
    picture.close();
    this.end();
    const sending = (this.#sending = new AbortController());
    this.#shown = URL.createObjectURL(blob);
    slot("photo").setAttribute("src", this.#shown);
    slot("verdicts").replaceChildren();
    offer("sending");
    const bar = /** @type {HTMLProgressElement} */ (slot("progress-bar"));
    bar.value = 0;
    show("check");
    try {
      const seen = await this.session.api.put(this.what, blob, source, (share) => (bar.value = share), sending.signal);
      if (!sending.signal.aborted) verdict(seen);
    } catch (error) {
      if (sending.signal.aborted) return;
      if (!(error instanceof Refusal)) throw error;
      if (error.status === 401 || error.status === 409) await this.session.refresh();
      else this.#refused(error.code === "IMAGE_NOT_EVALUABLE" ? "picture.small" : "picture.none");
    }
  }

  /** Back to the step with the rule in words; where there was no camera it is not tried again. @param {string} key */
  async #refused(key) {
    if (shown.screen !== "blocked") await this.begin(this.what);
    this.#note(key);
  }

  /** Say it beside the camera, and where there is none. @param {string} key @param {Record<string, string>} [values] */
  #note(key, values) {
    for (const note of slots("note")) {
      say(note, key, values);
      note.hidden = false;
    }
    sayWhere();
  }

  /** @param {string} key */
  #guide(key) {
    say(slot("guide"), key);
    slot("viewer").classList.toggle("good", key === "guide.good");
  }

  /** @param {string} why */
  #blocked(why) {
    this.#camera?.stop();
    this.#camera = null;
    say(slot("blocked-why"), `blocked.${why}`);
    show("blocked");
  }

  /** Drop the picture when nothing happens for long. */
  #touched() {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => {
      if (!["camera", "check"].includes(shown.screen)) return;
      this.end();
      show("idle");
    }, IDLE_MS);
  }
}
