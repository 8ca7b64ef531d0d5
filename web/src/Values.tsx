/** Inputs and results, as decimals and as bits. */

import { format, FORMATS, parts } from "./numbers.ts";
import { length, patternAt, type Tensor } from "./tensor.ts";

/** The table lists at most this many elements. */
const LISTED = 64;

export function Values({ x, y }: { x: Tensor; y: Tensor }) {
  const count = Math.min(length(x), LISTED);
  const isFloat = FORMATS[x.dtype].kind === "float";
  return (
    <>
      {isFloat && (
        <p class="legend" aria-hidden="true">
          Bits: <span class="sign">sign</span> <span class="exponent">exponent</span> <span class="fraction">fraction</span>
        </p>
      )}
      <div class="scroll" role="region" aria-label="Inputs and results" tabIndex={0}>
        <table id="values-table">
          <thead>
            <tr><th scope="col">Input</th><th scope="col">Its bits</th><th scope="col">Result</th><th scope="col">Its bits</th></tr>
          </thead>
          <tbody>
            {Array.from({ length: count }, (_, index) => {
              const [a, b] = [patternAt(x, index), patternAt(y, index)];
              return (
                <tr key={index}>
                  <td class="number">{format(a, x.dtype)}</td>
                  <td><Bits bits={a} of={x} /></td>
                  <td class={a === b ? "number" : "number changed"}>{format(b, x.dtype)}</td>
                  <td><Bits bits={b} of={x} /></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {length(x) > count && <p>The first {count} of {length(x).toLocaleString("en")}.</p>}
    </>
  );
}

function Bits({ bits, of }: { bits: bigint; of: Tensor }) {
  const { sign, exponent, fraction } = parts(bits, of.dtype);
  const hex = bits.toString(16).padStart(FORMATS[of.dtype].bits / 4, "0");
  return (
    <code class="bits" title={`0x${hex}`}>
      {sign && <span class="sign">{sign}</span>}
      {exponent && <span class="exponent">{exponent}</span>}
      <span class="fraction">{fraction}</span>
    </code>
  );
}
