/** The page: input, results, differences between directions, the staircase, and program snippets. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Client } from "../client/src/client.ts";
import { descriptorOf } from "../client/src/operators.ts";
import { type Catalog, type Choice, operatorOf, roundingOf, settle, versionOf } from "./catalog.ts";
import { Controls } from "./Controls.tsx";
import { Comparison } from "./Comparison.tsx";
import { useWork } from "./hooks.ts";
import { Input } from "./Input.tsx";
import { type NpyFile, tensorOf, withTensor } from "./npy.ts";
import { FORMATS } from "./numbers.ts";
import { Plot } from "./Plot.tsx";
import { about, clientWith, differences, execute, inEach, sentenceOf, wantsKey } from "./service.ts";
import { Snippets } from "./Snippets.tsx";
import { fragmentOf, shapeOf, type State, stateOf } from "./state.ts";
import { fromText, head, length, replaced, type Tensor } from "./tensor.ts";
import { Values } from "./Values.tsx";

/** The table of differences covers at most this many elements. */
const COMPARED = 1 << 16;

export function App() {
  const [key, setKey] = useState("");
  const client = useMemo(() => clientWith(key), [key]);
  const service = useWork(`about ${key}`, 0, () => about(client));
  if (wantsKey(service.error)) return <KeyForm isWrong={key !== ""} onKey={setKey} />;
  if (service.value === undefined) {
    return <main>{service.error ? <p role="alert">{sentenceOf(service.error)}</p> : <p role="status">Loading …</p>}</main>;
  }
  return <Workbench client={client} catalog={service.value} />;
}

function Workbench({ client, catalog }: { client: Client; catalog: Catalog }) {
  const [state, setState] = useState<State>(() => stateOf(location.hash));
  const [{ file, opened }, setOpened] = useState<{ file?: NpyFile; opened: number }>({ opened: 0 });
  const [unreadable, setUnreadable] = useState("");
  const change = (some: Partial<State>): void => setState((old) => ({ ...old, ...some }));
  const choice = useMemo(() => settle(catalog, state), [catalog, state.dialect, state.version, state.mode, state.dtype]);
  const chosen = roundingOf(catalog, choice);

  useEffect(() => {
    // Delayed, since browsers limit the rate of history changes.
    const timer = setTimeout(() => history.replaceState(null, "", fragmentOf({ ...state, ...choice }) || location.pathname + location.search), 200);
    return () => clearTimeout(timer);
  }, [state, choice]);
  useEffect(() => {
    const read = (): void => setState(stateOf(location.hash));
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);

  const read = useMemo((): { x?: Tensor; fault?: string } => {
    try {
      return { x: file ? tensorOf(file, choice.dtype) : typed(state, choice, versionOf(catalog, choice).min_rank) };
    } catch (error) {
      return { fault: sentenceOf(error) };
    }
  }, [file, state.values, state.shape, choice]);
  const { x } = read;
  const work = useWork(JSON.stringify([state.values, state.shape, choice, opened]), 120, x && (async (signal) => {
    const done = await execute(client, descriptorOf(operatorOf(choice), x.dtype, x.shape), x, signal);
    const some = head(x, COMPARED);
    const [found, results] = await Promise.all([
      differences(client, descriptorOf("ties_to_even", x.dtype, x.shape), x, signal),
      inEach(client, catalog.roundings, some, signal),
    ]);
    return { ...done, x, choice, some, found, results };
  }));
  const shown = read.fault === undefined && work.value?.x.dtype === choice.dtype ? work.value : undefined;
  const fault = unreadable || read.fault || (work.error ? sentenceOf(work.error) : "");

  const open = async (dropped: File, take: (file: File) => Promise<NpyFile>): Promise<void> => {
    try {
      if (dropped.size > catalog.limits.max_tensor_bytes) throw new Error(`${dropped.name} is larger than this service takes.`);
      const taken = await take(dropped);
      setUnreadable("");
      setOpened({ file: taken, opened: opened + 1 });
      if (taken.dtype) change({ dtype: taken.dtype, ...(settle(catalog, { ...choice, dtype: taken.dtype }).dtype === taken.dtype ? {} : { dialect: "ieee754" }) });
      else if (taken.size === 1 && !choice.dtype.startsWith("float8")) change({ dialect: "ieee754", dtype: "float8_e4m3fn" });
      else if (taken.size === 2) change({ dialect: "ieee754", dtype: "bfloat16" });
    } catch (error) {
      setUnreadable(sentenceOf(error));
    }
  };

  return (
    <>
      <header>
        <h1>tensor-round</h1>
        <p>Exact rounding, to the last bit. <span id="about">Version {catalog.service.version}, {work.value?.backend || catalog.execution.backend} on {catalog.execution.devices.join(", ")}</span></p>
        <nav aria-label="Elsewhere"><a href="docs">Interface</a> <a href="operators">Operators</a> <a href="conformance">Conformance</a></nav>
      </header>
      <main>
        <section aria-labelledby="in">
          <h2 id="in">Numbers</h2>
          <Input state={state} file={file} onChange={(some) => { setUnreadable(""); change(some); }} onFile={open} onType={() => setOpened({ opened: opened + 1 })} />
          <Controls catalog={catalog} choice={choice} file={file} onChange={change} />
          <p role="alert" id="fault">{fault}</p>
        </section>
        <section aria-labelledby="out" aria-busy={!shown && !fault}>
          <h2 id="out">Results</h2>
          {shown && !fault && <Values x={shown.x} y={shown.y} />}
          {x && !file && !fault && <Replaced text={state.values} x={x} />}
          {shown && !fault && file && <Download file={file} y={shown.y} />}
          <p role="status" id="done">{shown && !fault ? `${shown.backend} rounded ${length(shown.x).toLocaleString("en")} ${length(shown.x) === 1 ? "value" : "values"} in ${shown.ms.toFixed(3)} ms.` : ""}</p>
        </section>
        {shown && !fault && (
          <section aria-labelledby="differences">
            <h2 id="differences">Where directions differ</h2>
            <Comparison catalog={catalog} found={shown.found} x={shown.some} results={shown.results} chosen={roundingOf(catalog, shown.choice)} />
          </section>
        )}
        <section aria-labelledby="staircase">
          <h2 id="staircase">The staircase of {choice.dtype}</h2>
          <Plot client={client} catalog={catalog} dtype={choice.dtype} chosen={chosen} plotted={state.plotted} from={state.from} to={state.to} onChange={change} />
        </section>
        {x && (
          <section aria-labelledby="call">
            <h2 id="call">The same from a program</h2>
            <Snippets catalog={catalog} choice={choice} x={x} file={file} />
          </section>
        )}
      </main>
    </>
  );
}

/** The typed tensor. Without a shape it has the lowest rank that the operator allows, at least 1. */
function typed(state: State, { dtype }: Choice, minRank: number): Tensor {
  const x = fromText(state.values, dtype, shapeOf(state.shape));
  if (state.shape.trim()) {
    const wanted = x.shape.reduce((a, b) => a * b, 1);
    if (wanted !== length(x)) throw new Error(`The shape has room for ${wanted}, and there are ${length(x)} numbers.`);
    return x;
  }
  return { ...x, shape: [...Array<number>(Math.max(0, minRank - 1)).fill(1), length(x)] };
}

function Replaced({ text, x: { dtype } }: { text: string; x: Tensor }) {
  const found = useMemo(() => (FORMATS[dtype].kind === "float" ? replaced(text, dtype) : []), [text, dtype]);
  const lines = found.map(([typed, own]) => `${dtype} has no ${typed}: it is read as ${own}.`);
  return found.length ? <p id="replaced">{lines.join(" ")}</p> : null;
}

function Download({ file, y }: { file: NpyFile; y: Tensor }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    const made = URL.createObjectURL(withTensor(file, y));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [file, y]);
  return <p><a href={url} download={file.name.replace(/(\.npy)?$/, "-rounded.npy")}>Download the result as .npy</a></p>;
}

function KeyForm({ isWrong, onKey }: { isWrong: boolean; onKey: (key: string) => void }) {
  const [typed, setTyped] = useState("");
  return (
    <main>
      <h1>tensor-round</h1>
      <form onSubmit={(event) => { event.preventDefault(); onKey(typed); }}>
        <label for="key">This service requires an API key. The page keeps it in memory until you close it.</label>
        <input id="key" type="password" autocomplete="off" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <button type="submit">Use this key</button>
        <p role="alert">{isWrong ? "The service did not accept this key." : ""}</p>
      </form>
    </main>
  );
}
