/** Searches the documentation over an index that is fetched once, when the field is first used. */

/** Without an anchor it is the heading itself. @typedef {[page: number, heading: string, words: string, anchor?: string]} Row */
/** @typedef {{pages: [address: string, title: string][], sections: Row[]}} Index */

const MOST = 12;

/** @template {Element} T @param {string} selector @param {{new (): T}} kind @returns {T} */
function one(selector, kind) {
  const found = document.querySelector(selector);
  if (!(found instanceof kind)) throw new Error(`nothing is ${selector}`);
  return found;
}

/** How well a term names a text: a whole word counts more than the beginning of one. @param {string} term @param {string} text */
function nearness(term, text) {
  const at = ` ${text.toLowerCase()} `.indexOf(` ${term}`);
  if (at < 0) return text.toLowerCase().includes(term) ? 1 : 0;
  return ` ${text.toLowerCase()} `.includes(` ${term} `) ? 3 : 2;
}

/** The sections in which every term stands, the nearest first. @param {Index} index @param {string} wanted */
export function search(index, wanted) {
  const terms = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const [number, heading, words, anchor = heading] of index.sections) {
    const [page, title] = index.pages[number] ?? ["", ""];
    let score = terms.length ? 1 : 0;
    for (const term of terms) {
      const near = 9 * nearness(term, heading) + 3 * nearness(term, title) + nearness(term, words);
      score = near && score ? score + near : 0;
    }
    if (score) found.push({ title, heading, address: anchor ? `${page}#${anchor}` : page, score });
  }
  return found.sort((a, b) => b.score - a.score).slice(0, MOST);
}

class Search {
  /** @type {Promise<Index> | null} */
  #index = null;
  #form = one(".search", HTMLFormElement);
  #field = one("#wanted", HTMLInputElement);
  #found = one('[data-slot="found"]', HTMLElement);
  #count = one('[data-slot="count"]', HTMLElement);
  #results = one('[data-slot="results"]', HTMLOListElement);

  start() {
    this.#field.disabled = false;
    this.#field.addEventListener("focus", () => void this.#load());
    this.#field.addEventListener("input", () => void this.#show());
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#results.querySelector("a")?.click();
    });
    document.addEventListener("keydown", (event) => this.#key(event));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      this.#field.focus();
    } else if (event.key === "Escape" && event.target === this.#field) {
      this.#field.value = "";
      this.#found.hidden = true;
    }
  }

  /** @returns {Promise<Index>} */
  #load() {
    this.#index ??= fetch(this.#form.dataset["index"] ?? "").then((answer) => {
      if (!answer.ok) throw new Error(`the index was answered with ${answer.status}`);
      return answer.json();
    });
    return this.#index;
  }

  async #show() {
    const wanted = this.#field.value;
    /** @type {Index} */
    let index;
    try {
      index = await this.#load();
    } catch {
      this.#index = null;
      this.#say("The index could not be fetched. Type again to try once more.", []);
      return;
    }
    if (wanted !== this.#field.value) return;
    const found = search(index, wanted);
    const said = found.length === 0 ? `Nothing is found for “${wanted}”.` : `${found.length} found`;
    this.#say(said, found);
    this.#found.hidden = !wanted.trim();
  }

  /** @param {string} said @param {{title: string, heading: string, address: string}[]} found */
  #say(said, found) {
    this.#count.textContent = said;
    this.#found.hidden = false;
    this.#results.replaceChildren(
      ...found.map(({ title, heading, address }) => {
        const row = document.createElement("li");
        const link = document.createElement("a");
        link.href = address;
        link.textContent = heading || title;
        row.append(link);
        if (heading) row.append(` in ${title}`);
        return row;
      }),
    );
  }
}

new Search().start();
