/** The client: tensors over `POST /round`, in any runtime that has `fetch`. */

import { type DType, dtypeOf, type TypedArray } from "./dtypes.ts";
import { ConnectionFailed, ProtocolViolation, RequestRefused, refusalOf } from "./errors.ts";
import { type Descriptor, descriptorOf, type Operator } from "./operators.ts";

export interface ClientOptions {
  /** Sent as `Authorization: Bearer`. */
  readonly apiKey?: string;
  /** Fields of every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** How often a call is sent again after a broken connection or a 503; 2 if not given. */
  readonly retries?: number;
  /** What sends requests, instead of the platform's own. */
  readonly fetch?: typeof fetch;
}

export interface CallOptions {
  /** Ends the call; `AbortSignal.timeout(ms)` is its deadline. */
  readonly signal?: AbortSignal;
}

export interface RoundOptions extends CallOptions {
  /** What the bits in a `Uint16Array` or `Uint8Array` are: bfloat16, float16, float8_e4m3fn ... */
  readonly dtype?: DType;
  /** The tensor's shape; of one dimension if not given. */
  readonly shape?: readonly number[];
}

/** Bytes of a tensor. A stream is sent as it comes where the platform can, and gathered elsewhere. */
export type Data = ArrayBuffer | ArrayBufferView<ArrayBuffer> | Blob | ReadableStream<Uint8Array>;

/** How an output lies in its bytes; strides are in elements. */
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

// Browsers stream uploads over HTTP/2 alone; the service speaks HTTP/1.1.
const STREAMS = !(globalThis.navigator?.userAgent ?? "").startsWith("Mozilla/");
const IS_LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** A client of one service. It keeps no connection of its own: there is nothing to close. */
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

  /** A new array of the same class, with each element of `x` rounded. */
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

  /** The output of any descriptor, with strides and lengths, on bytes that lie as it says. */
  async execute(descriptor: Descriptor, data: Data, options: CallOptions = {}): Promise<Result> {
    const headers = {
      "Content-Type": "application/octet-stream",
      "Operator-Descriptor": JSON.stringify(descriptor),
    };
    const init: RequestInit & { duplex?: "half" } = { method: "POST", headers };
    if (!(data instanceof ReadableStream)) init.body = data;
    else if (STREAMS) Object.assign(init, { body: data, duplex: "half" });
    else init.body = await new Response(data).blob();
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

  /** The document at a path of the service: `operators`, `conformance`, `readyz` ... */
  async get<T = unknown>(path: string, options: CallOptions = {}): Promise<T> {
    const init = { headers: { Accept: "application/json" } };
    return (await this.#send(path, init, options, (r) => r.json() as Promise<T>)).content;
  }

  /** Whether the service would take a request now; false too where it is not there. */
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
