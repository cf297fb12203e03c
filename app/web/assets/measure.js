/** Measures a camera picture as the server does, on fewer pixels; pure. */

/** @typedef {{blur: number, brightness: number, glare: number, width: number, height: number, change: number}} Measures */

const TILE = 32;
const BURNT_OUT = 253;
const EDGE = 90;
/** A row or column belongs to the object when so much of it is edges. */
const EDGES = 0.03;

/**
 * Return the luma of RGBA pixels.
 * @param {Uint8ClampedArray} pixels
 */
export function luma(pixels) {
  const grey = new Float32Array(pixels.length / 4);
  for (let i = 0, at = 0; i < grey.length; i += 1, at += 4) {
    grey[i] = 0.299 * (pixels[at] ?? 0) + 0.587 * (pixels[at + 1] ?? 0) + 0.114 * (pixels[at + 2] ?? 0);
  }
  return grey;
}

/**
 * Measure a picture; `before` is the one before it, for how much changed.
 * @param {Float32Array} grey @param {number} width @param {number} height @param {Float32Array | null} before
 * @returns {Measures}
 */
export function measure(grey, width, height, before) {
  let sum = 0;
  let burnt = 0;
  let change = 0;
  for (let i = 0; i < grey.length; i += 1) {
    const value = grey[i] ?? 0;
    sum += value;
    if (value >= BURNT_OUT) burnt += 1;
    if (before !== null) change += Math.abs(value - (before[i] ?? 0));
  }
  const edges = laplacian(grey, width, height);
  return {
    blur: sharpest(edges, width, height),
    brightness: sum / grey.length,
    glare: burnt / grey.length,
    ...extent(edges, width, height),
    change: change / grey.length,
  };
}

/** @param {Float32Array} grey @param {number} width @param {number} height */
function laplacian(grey, width, height) {
  const edges = new Float32Array(grey.length);
  for (let y = 1; y < height - 1; y += 1) {
    for (let x = 1; x < width - 1; x += 1) {
      const i = y * width + x;
      const around = (grey[i - 1] ?? 0) + (grey[i + 1] ?? 0) + (grey[i - width] ?? 0) + (grey[i + width] ?? 0);
      edges[i] = around - 4 * (grey[i] ?? 0);
    }
  }
  return edges;
}

/** The 90th percentile over tiles of the Laplacian's variance. @param {Float32Array} edges @param {number} width @param {number} height */
function sharpest(edges, width, height) {
  const found = [];
  for (let top = 0; top + TILE <= height; top += TILE) {
    for (let left = 0; left + TILE <= width; left += TILE) {
      let sum = 0;
      let squares = 0;
      for (let y = top; y < top + TILE; y += 1) {
        for (let x = left; x < left + TILE; x += 1) {
          const value = edges[y * width + x] ?? 0;
          sum += value;
          squares += value * value;
        }
      }
      const count = TILE * TILE;
      found.push(squares / count - (sum / count) ** 2);
    }
  }
  found.sort((a, b) => a - b);
  return found[Math.floor(found.length * 0.9)] ?? 0;
}

/** How much of the picture the object spans, by where its edges are. @param {Float32Array} edges @param {number} width @param {number} height */
function extent(edges, width, height) {
  const rows = new Uint16Array(height);
  const columns = new Uint16Array(width);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      if (Math.abs(edges[y * width + x] ?? 0) > EDGE) {
        rows[y] = (rows[y] ?? 0) + 1;
        columns[x] = (columns[x] ?? 0) + 1;
      }
    }
  }
  return { width: span(columns, height), height: span(rows, width) };
}

/** @param {Uint16Array} counts @param {number} across */
function span(counts, across) {
  const busy = [...counts.keys()].filter((i) => (counts[i] ?? 0) > across * EDGES);
  return busy.length === 0 ? 0 : ((busy.at(-1) ?? 0) - (busy[0] ?? 0) + 1) / counts.length;
}

/**
 * Return what the person should do, as the key of a text; "guide.good" when nothing.
 * @param {Measures} found @param {"document" | "selfie"} what
 */
export function guidance(found, what) {
  if (found.brightness < (what === "document" ? 45 : 25)) return "guide.dark";
  if (found.change > 14) return "guide.still";
  if (what === "document") {
    if (found.width < 0.2 && found.height < 0.2) return "guide.aim";
    if (found.blur < 60) return "guide.still";
    if (found.glare > 0.3) return "guide.glare";
    if (found.width < 0.6 && found.height < 0.6) return "guide.closer";
  } else if (found.blur < 12) return "guide.face";
  return "guide.good";
}
