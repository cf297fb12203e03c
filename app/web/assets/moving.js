/** The movements of the head: what to do, the frames, and the ways on (P12 to P15). */

import { Refusal } from "./api.js";
import { Blocked, Camera } from "./camera.js";
import { action, say, show, shown, slot } from "./frame.js";

/** @typedef {import("./capture.js").Session} Session */

const FRAME_MS = 700;
const GOOD_MS = 1200;
const SENTENCE_MS = 1500;
const SHORTER_PX = 480;
const ROUNDS_MAX = 3;

/** The movements of one attempt. */
export class Moving {
  /** @type {Camera | null} */
  #camera = null;
  /** Which watching is the present one; another ends. */
  #run = 0;
  #rounds = 0;
  #said = "";
  #saidAt = 0;

  /** @param {Session} session */
  constructor(session) {
    this.session = session;
  }

  /** Say what comes, before the time begins. @param {string} [key] */
  begin(key = "movements.lead") {
    this.end();
    say(slot("move"), "movements.title");
    say(slot("move-lead"), key);
    slot("mover").className = "viewer face ready";
    this.#offer(true);
    show("movements", "MOVEMENTS");
  }

  /** Start the camera and the time. @param {boolean} double */
  async start(double) {
    this.end();
    const run = this.#run;
    this.#offer(false);
    const video = /** @type {HTMLVideoElement} */ (slot("moving"));
    const camera = (this.#camera = new Camera(video, "selfie", {
      guide: () => undefined,
      steady: () => undefined,
      blocked: (why) => this.begin(`blocked.${why}`),
    }));
    try {
      await camera.start();
      if (run !== this.#run) return camera.stop();
      const drawn = await this.session.api.post("/challenge", { double_time: double });
      if (run !== this.#run) return;
      this.#rounds += 1;
      slot("mover").classList.remove("ready");
      this.#ask(drawn.movement, 1);
      await this.#watch(run, camera);
    } catch (error) {
      if (run === this.#run) await this.#failed(error);
    }
  }

  /** Stop the camera and what is being sent. */
  end() {
    this.#run += 1;
    this.#camera?.stop();
    this.#camera = null;
  }

  /** Go on without the movements. */
  async skip() {
    this.end();
    this.session.arrived(await this.session.api.post("/challenge/skip", {}));
  }

  /** Send frames until all movements were accepted. @param {number} run @param {Camera} camera */
  async #watch(run, camera) {
    let step = 1;
    while (run === this.#run && shown.screen === "movements") {
      const began = performance.now();
      const frame = await shrunk(await camera.shoot());
      if (run !== this.#run) return;
      const answer = await this.session.api.frame(step, frame);
      if (run !== this.#run) return;
      if (answer.done) {
        this.end();
        return void (await this.session.refresh());
      }
      if (answer.accepted) {
        this.#hint("movements.good", true);
        await pause(GOOD_MS);
        this.#ask(answer.movement, answer.step);
      } else {
        this.#hint(`hint.${answer.hint}`, false);
      }
      step = answer.step;
      await pause(FRAME_MS - (performance.now() - began));
    }
    if (run === this.#run) this.end(); // another screen is shown
  }

  /** @param {string} movement @param {number} step */
  #ask(movement, step) {
    say(slot("move"), `movements.${movement}`);
    say(slot("move-lead"), "movements.step", { step: String(step) });
    slot("mover").className = `viewer face ${movement.toLowerCase()}`;
    this.#said = "";
    this.#hint("guide.face", false);
  }

  /** Say what to do, no sentence twice in a row. @param {string} key @param {boolean} good */
  #hint(key, good) {
    const now = performance.now();
    slot("mover").classList.toggle("good", good);
    if (key === this.#said || (!good && this.#said !== "" && now - this.#saidAt < SENTENCE_MS)) return;
    this.#said = key;
    this.#saidAt = now;
    say(slot("move-hint"), key);
  }

  /** @param {unknown} error */
  async #failed(error) {
    if (error instanceof Blocked) return this.begin(`blocked.${error.message}`);
    if (!(error instanceof Refusal)) throw error;
    if (error.status === 422) {
      this.begin("movements.selfie");
      action("selfie").hidden = false;
      return;
    }
    if (error.code !== "CHALLENGE_OVER") return this.session.refresh();
    if (this.#rounds === 0 || this.#rounds >= ROUNDS_MAX) return this.skip();
    this.begin("movements.over");
  }

  /** Offer to start, or else nothing but the way on. @param {boolean} start */
  #offer(start) {
    for (const name of ["move", "move-slowly"]) action(name).hidden = !start;
    action("selfie").hidden = true;
  }
}

/** Return a frame in the size that is judged. @param {ImageBitmap} picture @returns {Promise<Blob>} */
async function shrunk(picture) {
  const scale = SHORTER_PX / Math.min(picture.width, picture.height);
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(picture.width * scale);
  canvas.height = Math.round(picture.height * scale);
  canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob === null ? reject(new Blocked("busy")) : resolve(blob)), "image/jpeg", 0.86);
  });
}

/** @param {number} milliseconds @returns {Promise<void>} */
function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, milliseconds)));
}
