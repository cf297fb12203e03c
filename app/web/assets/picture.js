/** Makes what is sent: a JPEG within the limits, upright and without metadata. */

const SMALLEST_PX = 160;
const MOST_BYTES = 900_000;

/** Why a file cannot be sent; the name of a text below "picture." */
export class Unusable extends Error {}

/**
 * Open a chosen file as it is meant to be seen.
 * @param {File} file @returns {Promise<ImageBitmap>} @throws {Unusable}
 */
export async function open(file) {
  const head = new Uint8Array(await file.slice(0, 64).arrayBuffer().catch(() => new ArrayBuffer(0)));
  const ascii = String.fromCharCode(...head);
  if (moves(head, ascii)) throw new Unusable("animated");
  try {
    return await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    throw new Unusable(/^....ftyp(heic|heix|mif1|hevc|msf1)/s.test(ascii) ? "heic" : "none");
  }
}

/** Whether a file begins as one with several pictures does: GIF, WebP or PNG. @param {Uint8Array} head @param {string} ascii */
function moves(head, ascii) {
  const webp = /^RIFF....WEBPVP8X/s.test(ascii) && ((head[20] ?? 0) & 2) !== 0;
  return webp || /^GIF8|^\x89PNG.*acTL/s.test(ascii);
}

/**
 * Shrink a picture to the server's limits; the quality goes down until it is small enough to send.
 * @param {ImageBitmap} picture @param {{longest_side_px: number, jpeg_quality: number}} limits
 * @returns {Promise<Blob>} @throws {Unusable}
 */
export async function shrink(picture, limits) {
  if (Math.min(picture.width, picture.height) < SMALLEST_PX) throw new Unusable("small");
  let side = limits.longest_side_px;
  for (let quality = limits.jpeg_quality; ; quality -= 0.12) {
    const blob = await encode(picture, side, Math.max(quality, 0.5));
    if (blob.size <= MOST_BYTES || side < 1000) return blob;
    if (quality < 0.6) side = Math.round(side * 0.8);
  }
}

/** @param {ImageBitmap} picture @param {number} longest @param {number} quality @returns {Promise<Blob>} */
async function encode(picture, longest, quality) {
  const scale = Math.min(1, longest / Math.max(picture.width, picture.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(picture.width * scale);
  canvas.height = Math.round(picture.height * scale);
  const context = canvas.getContext("2d");
  if (context === null) throw new Unusable("none");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob === null ? reject(new Unusable("none")) : resolve(blob)), "image/jpeg", quality);
  });
}
