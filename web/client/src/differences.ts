/** The response of `POST /compare`: where the rounding directions differ on a tensor. */

import type { DType } from "./dtypes.ts";
import type { Rounding } from "./operators.ts";

/** An element: its shortest decimal, and its bits in hexadecimal. */
export interface Value {
  readonly value: string;
  readonly bits: string;
}

/** How many elements of one class differ, and the first of them. */
export interface ClassDifference {
  readonly name: string;
  readonly different: number;
  readonly first: readonly {
    readonly index: readonly number[];
    readonly x: Value;
    readonly results: Readonly<Partial<Record<Rounding, Value>>>;
  }[];
}

/** In how many elements two directions differ, by class. */
export interface PairDifference {
  readonly roundings: readonly [Rounding, Rounding];
  readonly different: number;
  readonly classes: Readonly<Record<string, ClassDifference>>;
}

/** Each pair of directions, and the operators that round in each direction. */
export interface Differences {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly elements: number;
  readonly operators: Readonly<Record<Rounding, readonly string[]>>;
  readonly pairs: readonly PairDifference[];
}
