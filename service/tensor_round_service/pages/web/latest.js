/** Asynchronous work of which only the latest counts. */

/** Runs one piece of work at a time; a new one aborts the one before. */
export class Latest {
  #key = "";
  #controller = new AbortController();

  /**
   * Run `work` in `delay` ms, unless it has been started under this key already.
   *
   * @template T
   * @param {string} key
   * @param {number} delay
   * @param {(signal: AbortSignal) => Promise<T>} work
   * @param {(result: T) => void} done
   * @param {(error: unknown) => void} failed
   */
  start(key, delay, work, done, failed) {
    if (key === this.#key) return;
    this.stop();
    this.#key = key;
    const { signal } = this.#controller;
    setTimeout(() => {
      if (signal.aborted) return;
      work(signal).then(
        (result) => signal.aborted || done(result),
        (error) => signal.aborted || failed(error),
      );
    }, delay);
  }

  /** Abort what runs. */
  stop() {
    this.#controller.abort();
    this.#controller = new AbortController();
    this.#key = "";
  }
}
