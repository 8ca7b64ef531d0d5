/** The input: typed numbers, or a dropped file. */

import { useEffect, useState } from "preact/hooks";
import { type NpyFile, readNpy } from "./npy.ts";
import type { State } from "./state.ts";

interface Props {
  readonly state: State;
  readonly file: NpyFile | undefined;
  readonly onChange: (some: Partial<State>) => void;
  readonly onFile: (file: File, take: (file: File) => Promise<NpyFile>) => Promise<void>;
  readonly onType: () => void;
}

const take = async (file: File): Promise<NpyFile> => readNpy(file.name, await file.arrayBuffer());

export function Input({ state, file, onChange, onFile, onType }: Props) {
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const over = (event: DragEvent): void => {
      event.preventDefault();
      setOver(event.type === "dragover");
    };
    const drop = (event: DragEvent): void => {
      over(event);
      const [first] = event.dataTransfer?.files ?? [];
      if (first) void onFile(first, take);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", over);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", over);
      removeEventListener("drop", drop);
    };
  }, [onFile]);

  return (
    <div class={isOver ? "input over" : "input"}>
      {file ? (
        <p>
          <strong>{file.name}</strong>, of shape [{file.shape.join(", ")}]
          {file.isFortran && ", in Fortran order; elements are shown in file order"}. Links to this page do not include it.{" "}
          <button type="button" onClick={onType}>Type numbers instead</button>
        </p>
      ) : (
        <>
          <label for="values">Numbers, separated by commas or spaces. 0x… gives the bits of an element.</label>
          <textarea id="values" rows={3} spellcheck={false} autocomplete="off" aria-describedby="fault" value={state.values} onInput={(event) => onChange({ values: event.currentTarget.value })} />
          <label class="inline">
            Shape <input id="shape" size={12} placeholder="flat" autocomplete="off" value={state.shape} onInput={(event) => onChange({ shape: event.currentTarget.value })} />
          </label>
        </>
      )}
      <label class="inline">
        Or drop a .npy file anywhere:{" "}
        <input
          type="file"
          accept=".npy"
          onChange={(event) => {
            const [first] = event.currentTarget.files ?? [];
            if (first) void onFile(first, take);
          }}
        />
      </label>
    </div>
  );
}
