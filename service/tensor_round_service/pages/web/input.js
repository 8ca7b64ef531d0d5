/** The input: typed numbers, or a dropped file. */

import { find } from "./elements.js";
import { readNpy } from "./npy.js";
import { sentenceOf } from "./service.js";

/** @import { NpyFile } from "./npy.js" */
/** @import { State } from "./state.js" */

/**
 * @typedef {object} InputEvents
 * @property {(some: Partial<State>) => void} onTyped
 * @property {(file: NpyFile) => void} onFile
 * @property {(sentence: string) => void} onUnreadable
 * @property {() => void} onClosed The user types numbers again.
 */

/** The box with the numbers, their shape, and the chooser of files. */
export class Input {
  #box = find("input", HTMLElement);
  #typed = find("typed", HTMLElement);
  #values = find("values", HTMLTextAreaElement);
  #shape = find("shape", HTMLInputElement);
  #opened = find("opened", HTMLElement);
  #name = find("file-name", HTMLElement);
  #layout = find("file-layout", HTMLElement);
  #chooser = find("file", HTMLInputElement);

  /**
   * @param {number} maxBytes The largest tensor that the service takes.
   * @param {InputEvents} events
   */
  constructor(maxBytes, { onTyped, onFile, onUnreadable, onClosed }) {
    /** @param {File | undefined} file */
    const open = async (file) => {
      if (!file) return;
      try {
        if (file.size > maxBytes) throw new Error(`${file.name} is larger than this service takes.`);
        onFile(readNpy(file.name, await file.arrayBuffer()));
      } catch (error) {
        onUnreadable(sentenceOf(error));
      }
    };
    /** @param {DragEvent} event */
    const drag = (event) => {
      event.preventDefault();
      this.#box.classList.toggle("over", event.type === "dragover");
    };
    this.#values.addEventListener("input", () => onTyped({ values: this.#values.value }));
    this.#shape.addEventListener("input", () => onTyped({ shape: this.#shape.value }));
    this.#chooser.addEventListener("change", () => open(this.#chooser.files?.[0]));
    find("type-instead", HTMLButtonElement).addEventListener("click", () => {
      this.#chooser.value = "";
      onClosed();
      this.#values.focus();
    });
    addEventListener("dragover", drag);
    addEventListener("dragleave", drag);
    addEventListener("drop", (event) => {
      drag(event);
      open(event.dataTransfer?.files[0]);
    });
  }

  /**
   * @param {State} state
   * @param {NpyFile | undefined} file
   */
  show({ values, shape }, file) {
    // A value that is set moves the cursor.
    if (this.#values.value !== values) this.#values.value = values;
    if (this.#shape.value !== shape) this.#shape.value = shape;
    this.#typed.hidden = file !== undefined;
    this.#opened.hidden = file === undefined;
    if (!file) return;
    this.#name.textContent = file.name;
    const order = file.isFortran ? ", in Fortran order; elements are shown in file order" : "";
    this.#layout.textContent = `of shape [${file.shape.join(", ")}]${order}`;
  }
}
