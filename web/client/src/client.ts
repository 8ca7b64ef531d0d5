/** The client: tensors over `POST /round`, in any runtime that has `fetch`. */

import type { Differences } from "./differences.ts";
import { type DType, dtypeOf, type TypedArray } from "./dtypes.ts";
import { ConnectionFailed, ProtocolViolation, RequestRefused, refusalOf } from "./errors.ts";
import { type Descriptor, descriptorOf, type Operator } from "./operators.ts";

export interface ClientOptions {
  /** API key, sent as `Authorization: Bearer`. */
  readonly apiKey?: string;
  /** Fields added to every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Number of retries after a broken connection or a 503; 2 by default. */
  readonly retries?: number;
  /** Replacement for the `fetch` of the platform. */
  readonly fetch?: typeof fetch;
}

export interface CallOptions {
  /** Aborts the call; use `AbortSignal.timeout(ms)` for a deadline. */
  readonly signal?: AbortSignal;
}

export interface RoundOptions extends CallOptions {
  /** The type of the bits in a `Uint16Array` or `Uint8Array`: bfloat16, float16, float8_e4m3fn ... */
  readonly dtype?: DType;
  /** The shape of the tensor; one dimension by default. */
  readonly shape?: readonly number[];
}

/** Bytes of a tensor. Node uploads a stream as it is read; browsers collect it first. */
export type Data = ArrayBuffer | ArrayBufferView<ArrayBuffer> | Blob | ReadableStream<Uint8Array>;

/** The memory layout of an output; strides are in elements, byte_length is in bytes. */
export interface Layout {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly byte_length: number;
}

/** The output of one call. */
export interface Result {
  readonly data: ArrayBuffer;
  readonly layout: Layout;
  readonly backend: string;
  /** Milliseconds by stage: receive, queue, execute. */
  readonly timing: Readonly<Record<string, number>>;
  readonly requestId: string;
}

// Browsers stream uploads over HTTP/2 only, and the service uses HTTP/1.1.
const STREAMS = !(globalThis.navigator?.userAgent ?? "").startsWith("Mozilla/");
const IS_LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** A client of one service. It holds no resources, so it has no close method. */
export class Client {
  readonly #base: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #retries: number;
  readonly #fetch: typeof fetch;

  constructor(url: string | URL, options: ClientOptions = {}) {
    this.#base = new URL(url);
    if (!this.#base.pathname.endsWith("/")) this.#base.pathname += "/";
    const key = options.apiKey ? { Authorization: `Bearer ${options.apiKey}` } : {};
    this.#headers = { ...options.headers, ...key };
    this.#retries = options.retries ?? 2;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Round each element of `x`; return a new array of the same class. */
  async round<T extends TypedArray>(
    x: T,
    operator: Operator = "ties_to_even",
    { dtype, shape = [x.length], signal }: RoundOptions = {},
  ): Promise<T> {
    if (!IS_LITTLE_ENDIAN) throw new TypeError("typed arrays are big-endian here: use execute");
    const descriptor = descriptorOf(operator, dtypeOf(x, dtype), shape);
    const view = x as ArrayBufferView<ArrayBuffer>;
    const { data } = await this.execute(descriptor, view, signal ? { signal } : {});
    // DirectML's lengths are multiples of 4.
    return new (x.constructor as new (b: ArrayBuffer, at: number, n: number) => T)(data, 0, x.length);
  }

  /** Execute any descriptor, strides and lengths included, on the bytes of its input. */
  async execute(descriptor: Descriptor, data: Data, options: CallOptions = {}): Promise<Result> {
    const init = await posted(descriptor, data);
    const { response, content } = await this.#send("round", init, options, (r) => r.arrayBuffer());
    const stated = response.headers.get("Output-Descriptor");
    const layout = stated === null ? undefined : (JSON.parse(stated) as Layout);
    if (layout?.byte_length !== content.byteLength) {
      throw new ProtocolViolation("the response is not as long as its Output-Descriptor says");
    }
    return {
      data: content,
      layout,
      backend: response.headers.get("Execution-Backend") ?? "",
      timing: timingOf(response.headers.get("Server-Timing") ?? ""),
      requestId: response.headers.get("X-Request-ID") ?? "",
    };
  }

  /** Compare the rounding directions on a tensor that a descriptor describes. */
  async compare(descriptor: Descriptor, data: Data, options: CallOptions = {}): Promise<Differences> {
    const init = await posted(descriptor, data);
    return (await this.#send("compare", init, options, (r) => r.json() as Promise<Differences>)).content;
  }

  /** Get a JSON document of the service: `operators`, `conformance`, `readyz` ... */
  async get<T = unknown>(path: string, options: CallOptions = {}): Promise<T> {
    const init = { headers: { Accept: "application/json" } };
    return (await this.#send(path, init, options, (r) => r.json() as Promise<T>)).content;
  }

  /** Return whether the service accepts requests; false if it cannot be reached. */
  async ready(options: CallOptions = {}): Promise<boolean> {
    try {
      return (await this.get<{ status: string }>("readyz", options)).status === "ready";
    } catch {
      options.signal?.throwIfAborted();
      return false;
    }
  }

  async #send<T>(
    path: string,
    init: RequestInit,
    { signal }: CallOptions,
    read: (response: Response) => Promise<T>,
  ): Promise<{ response: Response; content: T }> {
    const url = new URL(path, this.#base);
    const headers = { ...this.#headers, ...(init.headers as Record<string, string>) };
    const tries = init.body instanceof ReadableStream ? 0 : this.#retries;
    for (let failed = 0; ; failed++) {
      const error = await (async () => {
        try {
          const response = await this.#fetch(url, { ...init, headers, signal: signal ?? null });
          if (response.ok) return { response, content: await read(response) };
          return await refusalOf(response);
        } catch (cause) {
          signal?.throwIfAborted();
          return new ConnectionFailed(`no response from ${url.origin}`, { cause });
        }
      })();
      if (!(error instanceof Error)) return error;
      const after = error instanceof RequestRefused ? error.retryAfter : 0.1 * 2 ** failed;
      if (error instanceof ProtocolViolation || after === undefined || failed >= tries) throw error;
      await pause(after * 1000, signal);
    }
  }
}

async function posted(descriptor: Descriptor, data: Data): Promise<RequestInit> {
  const headers = {
    "Content-Type": "application/octet-stream",
    "Operator-Descriptor": JSON.stringify(descriptor),
  };
  const init: RequestInit & { duplex?: "half" } = { method: "POST", headers };
  if (!(data instanceof ReadableStream)) init.body = data;
  else if (STREAMS) Object.assign(init, { body: data, duplex: "half" });
  else init.body = await new Response(data).blob();
  return init;
}

function timingOf(field: string): Record<string, number> {
  const stages = field.matchAll(/([\w-]+);dur=([\d.]+)/g);
  return Object.fromEntries(Array.from(stages, ([, name, ms]) => [name, Number(ms)]));
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}
