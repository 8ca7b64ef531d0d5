/** Elements of the page: those of index.html, and new ones. */

/**
 * The element with this id.
 *
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
export function find(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new TypeError(`the page has no ${kind.name} #${id}`);
  return found;
}

/**
 * A new element with these properties and children.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Partial<HTMLElementTagNameMap[K]>} [properties]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/**
 * Show a hint while a table is wider than its place: `NAME-hint`, `NAME-table` in `NAME-scroll`.
 *
 * @param {string} name
 */
export function hintAtWidth(name) {
  const [hint, scroll] = [find(`${name}-hint`, HTMLElement), find(`${name}-scroll`, HTMLElement)];
  const sizes = new ResizeObserver(() => {
    hint.hidden = scroll.scrollWidth <= scroll.clientWidth;
  });
  for (const element of [scroll, find(`${name}-table`, HTMLElement)]) sizes.observe(element);
}

/** @typedef {(at: number) => HTMLTableRowElement} RowAt Makes the row at a place. */

const FIRST = 8;
const MORE = 64;

/** The rows of a long table: the first eight, and 64 more each time that its button is pressed. */
export class Rows {
  #body;
  #note = make("span");
  #button = make("button", { type: "button", hidden: true });
  #count = 0;
  #listed = FIRST;
  #suffix = "";
  /** @type {RowAt} */
  #rowAt = () => make("tr");

  /**
   * @param {HTMLTableSectionElement} body
   * @param {HTMLElement} below The element that gets the button, and says how many rows there are.
   */
  constructor(body, below) {
    this.#body = body;
    below.append(this.#note, " ", this.#button);
    this.#button.addEventListener("click", () => {
      this.#listed += MORE;
      this.#list();
    });
  }

  /**
   * @param {number} count
   * @param {RowAt} rowAt
   * @param {string} [suffix] What the rows are part of.
   */
  show(count, rowAt, suffix = "") {
    if (count !== this.#count) this.#listed = FIRST;
    this.#count = count;
    this.#rowAt = rowAt;
    this.#suffix = suffix;
    this.#body.replaceChildren();
    this.#list();
  }

  #list() {
    const listed = Math.min(this.#listed, this.#count);
    for (let at = this.#body.rows.length; at < listed; at++) this.#body.append(this.#rowAt(at));
    const left = this.#count - listed;
    this.#note.textContent = left ? `The first ${listed} of ${this.#count.toLocaleString("en")}${this.#suffix}.` : "";
    this.#button.textContent = `Show ${Math.min(left, MORE)} more`;
    this.#button.hidden = left === 0;
  }
}
