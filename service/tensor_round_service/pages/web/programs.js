/** Programs that make the shown call, with buttons that copy them. */

import { find, make } from "./elements.js";
import { LANGUAGES, snippet } from "./snippets.js";
import { length } from "./tensor.js";

/** @import { Shown } from "./snippets.js" */

/** Programs contain at most this many numbers. */
const MOST = 1000;

/** The section with the programs. */
export class Programs {
  #text = find("snippet", HTMLElement);
  #tooLong = find("too-long", HTMLElement);
  #language = LANGUAGES[0] ?? "curl";
  /** @type {Shown | undefined} */
  #shown;

  constructor() {
    for (const language of LANGUAGES) {
      const radio = make("input", { type: "radio", name: "language", checked: language === this.#language });
      radio.addEventListener("change", () => {
        this.#language = language;
        if (this.#shown) this.show(this.#shown);
      });
      find("languages", HTMLElement).append(make("label", {}, radio, ` ${language}`));
    }
    copies("copy-program", "program-copied", () => this.#text.textContent ?? "");
    copies("copy-link", "link-copied", () => location.href);
  }

  /** @param {Shown} shown */
  show(shown) {
    this.#shown = shown;
    const isLong = !shown.file && length(shown.x) > MOST;
    this.#tooLong.hidden = !isLong;
    this.#text.hidden = isLong;
    this.#text.textContent = isLong ? "" : snippet(this.#language, shown);
    this.#text.ariaLabel = `${this.#language} program`;
  }
}

/**
 * Have a button copy a text, and an element say whether that worked.
 *
 * @param {string} button
 * @param {string} status
 * @param {() => string} text
 */
function copies(button, status, text) {
  const said = find(status, HTMLElement);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let forgetting;
  find(button, HTMLButtonElement).addEventListener("click", async () => {
    clearTimeout(forgetting);
    said.textContent = await copy(text()).then(() => "Copied.", () => "The browser does not allow it.");
    forgetting = setTimeout(() => (said.textContent = ""), 2000);
  });
}

/**
 * Copy to the clipboard. Pages loaded over plain HTTP have no `navigator.clipboard`.
 *
 * @param {string} text
 */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const holder = make("textarea", { value: text });
  document.body.append(holder);
  holder.select();
  document.execCommand("copy");
  return holder.remove();
}
