/** The camera of a step: starts and stops the stream, guides, and takes the picture. */

import { guidance, luma, measure } from "./measure.js";

const LOOK_MS = 200;
/** Good for so long, the document's picture is taken without a press. */
const STEADY_MS = 800;
/** A new sentence comes at most so often. */
const SENTENCE_MS = 1500;
const BLACK_MS = 3000;
/** Without a picture for so long after its start, a camera is taken for one that another app uses. */
const NO_PICTURE_MS = 12000;
const MEASURED_PX = 480;

/** Why there is no camera; the name of a text below "blocked." */
export class Blocked extends Error {}

/** One running camera. */
export class Camera {
  /** @type {MediaStream | null} */
  #stream = null;
  /** How often it was stopped: a stream that was asked for before is not wanted any more. */
  #stops = 0;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;
  #canvas = document.createElement("canvas");
  /** @type {Float32Array | null} */
  #before = null;
  #goodSince = 0;
  #saidAt = 0;
  #said = "";
  #blackSince = 0;
  #startedAt = 0;

  /**
   * @param {HTMLVideoElement} video @param {"document" | "selfie"} what
   * @param {{guide: (key: string) => void, steady: () => void, blocked: (why: "black" | "busy") => void}} on
   */
  constructor(video, what, on) {
    this.video = video;
    this.what = what;
    this.on = on;
    this.front = what === "selfie";
  }

  /** Ask for the camera and show it. @throws {Blocked} */
  async start() {
    if (!isSecureContext) throw new Blocked("insecure");
    if (navigator.mediaDevices === undefined) throw new Blocked("embedded");
    const facing = this.front ? "user" : "environment";
    const video = { facingMode: { ideal: facing }, width: { ideal: 1920 }, height: { ideal: 1080 } };
    const stops = this.#stops;
    /** @type {MediaStream} */
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video, audio: false });
    } catch (error) {
      throw new Blocked(reason(error));
    }
    if (stops !== this.#stops) return end(stream); // another camera may show its picture in the element by now
    this.#stream = stream;
    this.video.srcObject = stream;
    this.video.classList.toggle("front", this.front);
    this.#blackSince = 0;
    this.#startedAt = performance.now();
    this.#timer = setInterval(() => this.#look(), LOOK_MS); // also when nothing comes, and `play` waits for it
    await this.video.play().catch(() => undefined);
  }

  /** End the stream; the device's lamp goes out. */
  stop() {
    this.#stops += 1;
    clearInterval(this.#timer);
    if (this.#stream !== null) {
      end(this.#stream);
      this.video.srcObject = null;
    }
    this.#stream = null;
    this.#before = null;
    this.#goodSince = 0;
  }

  /** Return whether the device has a light that can be switched. */
  get hasLight() {
    return "torch" in (this.#track?.getCapabilities?.() ?? {});
  }

  /** @param {boolean} on */
  async light(on) {
    await this.#track?.applyConstraints({ advanced: [/** @type {any} */ ({ torch: on })] });
  }

  /** Use the camera of the other side. */
  async flip() {
    this.stop();
    this.front = !this.front;
    await this.start();
  }

  /** Return the present picture, unmirrored. @returns {Promise<ImageBitmap>} */
  async shoot() {
    return createImageBitmap(this.video);
  }

  get #track() {
    return this.#stream?.getVideoTracks()[0];
  }

  #look() {
    const { videoWidth, videoHeight } = this.video;
    if (videoWidth === 0) {
      if (performance.now() - this.#startedAt > NO_PICTURE_MS) this.on.blocked("busy");
      return;
    }
    const scale = MEASURED_PX / Math.max(videoWidth, videoHeight);
    const width = (this.#canvas.width = Math.round(videoWidth * scale));
    const height = (this.#canvas.height = Math.round(videoHeight * scale));
    const context = this.#canvas.getContext("2d", { willReadFrequently: true });
    if (context === null) return;
    context.drawImage(this.video, 0, 0, width, height);
    const grey = luma(context.getImageData(0, 0, width, height).data);
    const found = measure(grey, width, height, this.#before);
    this.#before = grey;
    this.#judge(found, performance.now());
  }

  /** @param {import("./measure.js").Measures} found @param {number} now */
  #judge(found, now) {
    this.#blackSince = found.brightness < 4 ? this.#blackSince || now : 0;
    if (this.#blackSince !== 0 && now - this.#blackSince > BLACK_MS) {
      this.on.blocked("black");
      return;
    }
    const key = guidance(found, this.what);
    this.#goodSince = key === "guide.good" ? this.#goodSince || now : 0;
    if (key !== this.#said && now - this.#saidAt > SENTENCE_MS) {
      this.#said = key;
      this.#saidAt = now;
      this.on.guide(key);
    }
    const steady = this.#goodSince !== 0 && now - this.#goodSince > STEADY_MS;
    if (steady && this.#said === "guide.good" && this.what === "document") this.on.steady();
  }
}

/** @param {MediaStream} stream */
function end(stream) {
  for (const track of stream.getTracks()) track.stop();
}

/** Whether another app shows the page: there the person cannot allow a camera. */
function inApp() {
  return /; wv\)|FBA[NV]|Instagram|MicroMessenger|(iPhone|iPad)(?!.* Safari\/)/.test(navigator.userAgent);
}

/** @param {unknown} error */
function reason(error) {
  const name = error instanceof DOMException ? error.name : "";
  if (name === "NotAllowedError" || name === "SecurityError") return inApp() ? "embedded" : "allow";
  if (name === "NotFoundError" || name === "OverconstrainedError") return "missing";
  return "busy";
}
