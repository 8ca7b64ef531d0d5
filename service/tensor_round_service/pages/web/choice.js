/** The choice of operator and dtype, in the words of its dialect. */

import { dtypesOf, operatorOf, operatorsOf, versionsOf } from "./catalog.js";
import { find, make } from "./elements.js";
import { mayBe } from "./npy.js";

/** @import { Catalog, Choice } from "./catalog.js" */
/** @import { NpyFile } from "./npy.js" */

/** @typedef {readonly [value: string, text: string]} Option */

/** The lists to choose from; those that a dialect has no use for are hidden. */
export class ChoiceLists {
  #catalog;
  #lists;

  /**
   * @param {Catalog} catalog
   * @param {(some: Partial<Choice>) => void} onChange
   */
  constructor(catalog, onChange) {
    this.#catalog = catalog;
    /** @param {keyof Choice} name */
    const list = (name) => {
      const select = find(`choice-${name}`, HTMLSelectElement);
      select.addEventListener("change", () => onChange({ [name]: select.value }));
      return select;
    };
    this.#lists = {
      dialect: list("dialect"),
      operator: list("operator"),
      version: list("version"),
      mode: list("mode"),
      dtype: list("dtype"),
      target: list("target"),
    };
  }

  /**
   * @param {Choice} choice
   * @param {NpyFile | undefined} file
   */
  show(choice, file) {
    const { dialect, operator, version, mode, dtype, target } = this.#lists;
    const { version_field, modes, target_field } = operatorOf(this.#catalog, choice);
    const operators = operatorsOf(this.#catalog, choice.dialect).map(({ operator }, at) => /** @type {Option} */ ([at ? operator : "", operator]));
    const targets = target_field === null ? [] : dtypesOf(this.#catalog, choice);
    const dialects = Object.entries(this.#catalog.dialects);
    const dtypes = dtypesOf(this.#catalog, choice).filter(([, own]) => !file || mayBe(file, own));
    const versions = version_field ? versionsOf(this.#catalog, choice) : [];
    fill(dialect, dialects.map(([name, { title }]) => [name, title]), choice.dialect);
    fill(operator, operators, choice.operator);
    fill(version, versions.length > 1 ? versions.map((name) => [name, name]) : [], choice.version);
    fill(mode, Object.entries(modes).map(([name, own]) => [name, named(name, own)]), choice.mode);
    fill(dtype, dtypes.map(([name, own]) => [own, named(name, own)]), choice.dtype);
    fill(target, targets.map(([name, own]) => [own, named(name, own)]), choice.target);
    find("version-field", HTMLLabelElement).textContent = version_field;
  }
}

/** @type {(name: string, own: string) => string} */
const named = (name, own) => (name === own ? name : `${name} (${own})`);

/**
 * Give a list its options; without any, hide it and its label.
 *
 * @param {HTMLSelectElement} select
 * @param {readonly Option[]} options
 * @param {string} value
 */
function fill(select, options, value) {
  const texts = Array.from(select.options, (option) => option.text);
  // An open list closes if its options are replaced.
  if (texts.join("\n") !== options.map(([, text]) => text).join("\n")) {
    select.replaceChildren(...options.map(([own, text]) => make("option", { value: own }, text)));
  }
  select.value = value;
  if (select.parentElement) select.parentElement.hidden = options.length === 0;
}
