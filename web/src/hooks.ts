/** A hook that components share: asynchronous work, restarted when its inputs change. */

import { useEffect, useRef, useState } from "preact/hooks";

export interface Work<T> {
  readonly value: T | undefined;
  readonly error: unknown;
}

/** Run `work` `delay` ms after each change of `key`, abort the previous run, and return the latest result. */
export function useWork<T>(key: string, delay: number, work: ((signal: AbortSignal) => Promise<T>) | undefined): Work<T> {
  const [state, setState] = useState<Work<T>>({ value: undefined, error: undefined });
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const timer = setTimeout(() => {
      latest.current?.(signal).then(
        (value) => signal.aborted || setState({ value, error: undefined }),
        (error: unknown) => signal.aborted || setState({ value: undefined, error }),
      );
    }, delay);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [key, delay]);
  return state;
}
