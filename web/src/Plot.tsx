/** The staircase plot of rounding directions: drag to pan, wheel or pinch to zoom. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Client } from "../client/src/client.ts";
import type { DType } from "../client/src/dtypes.ts";
import type { Rounding } from "../client/src/operators.ts";
import { type Catalog, operatorsBy } from "./catalog.ts";
import { draw, plotLeft, plotWidth, type View } from "./draw.ts";
import { useWork } from "./hooks.ts";
import { numberOf } from "./numbers.ts";
import { inEach, sentenceOf } from "./service.ts";
import { heldRange, sample } from "./staircase.ts";
import { START, type State } from "./state.ts";
import { fromPatterns, patternAt } from "./tensor.ts";

interface Props {
  readonly client: Client;
  readonly catalog: Catalog;
  readonly dtype: DType;
  readonly chosen: Rounding;
  readonly plotted: readonly string[];
  readonly from: number;
  readonly to: number;
  readonly onChange: (some: Partial<State>) => void;
}

const SAID = {
  every: "Each point is one value of the dtype; there are no values in between.",
  steps: "A closed point belongs to the level; an open point does not.",
  trend: "The steps are too narrow to show; zoom in to see them.",
};

export function Plot({ client, catalog, dtype, chosen, plotted, from: wantedFrom, to: wantedTo, onChange }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [from, to] = useMemo(() => heldRange(wantedFrom, wantedTo, dtype), [wantedFrom, wantedTo, dtype]);
  const directions = catalog.roundings.filter((rounding) => rounding === chosen || plotted.includes(rounding));
  const work = useWork(JSON.stringify([dtype, from, to, directions]), 60, async (signal): Promise<View> => {
    // Include a margin, so that a drag shows no empty area.
    const margin = (to - from) / 4;
    const { kind, patterns } = sample(from - margin, to + margin, dtype);
    const x = fromPatterns(patterns, dtype);
    const results = await inEach(client, directions, x, signal);
    const values = (of: typeof x): number[] => patterns.map((_, i) => numberOf(patternAt(of, i), dtype));
    return { from, to, kind, xs: values(x), curves: Array.from(results, ([rounding, y]) => ({ rounding, ys: values(y) })) };
  });
  const view = work.value;

  useEffect(() => {
    const element = canvas.current;
    if (!element || !view) return;
    const redraw = (): void => draw(element, { ...view, from, to });
    redraw();
    const sizes = new ResizeObserver(redraw);
    sizes.observe(element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", redraw);
    return () => {
      sizes.disconnect();
      scheme.removeEventListener("change", redraw);
    };
  }, [view, from, to]);

  // Several moves may happen before the next render: each continues from the one before.
  const now = useRef<readonly [number, number]>([from, to]);
  now.current = [from, to];
  const range = (a: number, b: number): void => {
    const [low, high] = (now.current = heldRange(a, b, dtype));
    onChange({ from: low, to: high });
  };
  const pan = (by: number): void => {
    const [a, b] = now.current;
    range(a + (b - a) * by, b + (b - a) * by);
  };
  const zoom = (by: number, at = (now.current[0] + now.current[1]) / 2): void => {
    const [a, b] = now.current;
    range(at - (at - a) * by, at + (b - at) * by);
  };
  const latest = useRef({ pan, zoom });
  latest.current = { pan, zoom };
  useEffect(() => (canvas.current ? followPointers(canvas.current, latest, () => now.current) : undefined), []);

  const keys: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => pan(-0.1),
    ArrowRight: () => pan(0.1),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    Home: () => range(START.from, START.to),
  };
  const described = `${dtype} from ${from} to ${to}: ${directions.join(", ")}`;
  return (
    <>
      <fieldset class="legend">
        <legend>Directions</legend>
        {catalog.roundings.map((rounding) => (
          <label key={rounding} class={`direction ${rounding}`}>
            <input
              type="checkbox"
              checked={directions.includes(rounding)}
              disabled={rounding === chosen}
              onChange={(event) => onChange({ plotted: event.currentTarget.checked ? [...plotted, rounding] : plotted.filter((other) => other !== rounding) })}
            />
            {rounding} <small>{operatorsBy(catalog, rounding, dtype).join(", ")}</small>
          </label>
        ))}
      </fieldset>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`Staircase of ${described}. Arrow keys move it, plus and minus zoom, Home resets the range.`}
        data-kind={view?.kind ?? ""}
        data-from={from}
        data-to={to}
        onKeyDown={(event) => {
          const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
          if (!act) return;
          event.preventDefault();
          act();
        }}
      />
      <p class="buttons">
        <button type="button" onClick={() => pan(-0.25)} aria-label="Move left">←</button>
        <button type="button" onClick={() => pan(0.25)} aria-label="Move right">→</button>
        <button type="button" onClick={() => zoom(0.5)} aria-label="Zoom in">+</button>
        <button type="button" onClick={() => zoom(2)} aria-label="Zoom out">−</button>
        <button type="button" onClick={() => range(START.from, START.to)}>Reset</button>
        <span>{work.error ? sentenceOf(work.error) : view ? SAID[view.kind] : ""}</span>
      </p>
    </>
  );
}

interface Moves {
  readonly pan: (by: number) => void;
  readonly zoom: (by: number, at?: number) => void;
}

/** Handle drags, the wheel and pinches on the canvas. Returns a function that removes the handlers. */
function followPointers(canvas: HTMLCanvasElement, moves: { readonly current: Moves }, range: () => readonly [number, number]): () => void {
  const ends = new AbortController();
  const options = { signal: ends.signal };
  const valueAt = (clientX: number): number => {
    const [from, to] = range();
    const at = (clientX - canvas.getBoundingClientRect().left - plotLeft) / plotWidth(canvas);
    return from + (to - from) * at;
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    POINTERS.set(event.pointerId, event.clientX);
  }, options);
  canvas.addEventListener("pointermove", (event) => {
    const before = POINTERS.get(event.pointerId);
    if (before === undefined) return;
    const others = [...POINTERS].filter(([id]) => id !== event.pointerId);
    POINTERS.set(event.pointerId, event.clientX);
    const other = others[0]?.[1];
    if (other === undefined) moves.current.pan((before - event.clientX) / plotWidth(canvas));
    else moves.current.zoom(Math.max(Math.abs(before - other), 1) / Math.max(Math.abs(event.clientX - other), 1), valueAt((event.clientX + other) / 2));
  }, options);
  for (const end of ["pointerup", "pointercancel"] as const) canvas.addEventListener(end, (event) => POINTERS.delete(event.pointerId), options);
  canvas.addEventListener("wheel", (event) => {
    if (event.deltaY === 0) return;
    event.preventDefault();
    moves.current.zoom(event.deltaY < 0 ? 0.8 : 1.25, valueAt(event.clientX));
  }, { ...options, passive: false });
  return () => ends.abort();
}

/** The last x coordinate of each pressed pointer, by its id. */
const POINTERS = new Map<number, number>();
