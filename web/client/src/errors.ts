/** Errors of the client. An aborted call throws the reason of its signal instead. */

/** Base class of all errors of this package. */
export class TensorRoundError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/** No response: not reachable, connection lost, or the origin of the page is not in CORS_ORIGINS. */
export class ConnectionFailed extends TensorRoundError {}

/** The response violates the protocol: it comes from another server or a proxy. */
export class ProtocolViolation extends TensorRoundError {}

/** One fault of a request: its location and the reason. */
export interface Fault {
  readonly loc: readonly (string | number)[];
  readonly msg: string;
}

/** A problem document (RFC 9457). */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
  readonly errors?: readonly Fault[];
  readonly limit_bytes?: number;
  readonly got_bytes?: number;
}

/** The service refused the request; `code` names the rule. */
export class RequestRefused extends TensorRoundError {
  readonly problem: Problem;
  readonly status: number;
  readonly code: string;
  readonly faults: readonly Fault[];
  /** Seconds to wait before a retry; undefined if a retry is pointless. */
  readonly retryAfter: number | undefined;
  /** The X-Request-ID, which the log of the service contains too. */
  readonly requestId: string | undefined;

  constructor(problem: Problem, retryAfter?: number, requestId?: string) {
    super(problem.detail);
    this.problem = problem;
    this.retryAfter = retryAfter;
    this.requestId = requestId;
    this.status = problem.status;
    this.code = problem.code;
    this.faults = problem.errors ?? [];
  }
}

export class MissingDescriptor extends RequestRefused {}
export class DuplicateDescriptor extends RequestRefused {}
export class InvalidDescriptor extends RequestRefused {}
export class MalformedJSON extends RequestRefused {}
export class MalformedNpy extends RequestRefused {}
export class MalformedEncoding extends RequestRefused {}
export class PayloadSizeMismatch extends RequestRefused {}
export class DigestMismatch extends RequestRefused {}
export class Unauthorized extends RequestRefused {}
export class NotFound extends RequestRefused {}
export class MethodNotAllowed extends RequestRefused {}
export class ReceiveTimeout extends RequestRefused {}
export class TensorTooLarge extends RequestRefused {}
export class UnsupportedMediaType extends RequestRefused {}
export class UnsupportedEncoding extends RequestRefused {}
export class MisdirectedHost extends RequestRefused {}
export class HeadersTooLarge extends RequestRefused {}
export class Overloaded extends RequestRefused {}
export class Draining extends RequestRefused {}
export class DeviceOutOfMemory extends RequestRefused {}
export class BackendFailed extends RequestRefused {}
export class InternalError extends RequestRefused {}

/** The class of each code. */
export const REFUSALS: Readonly<Record<string, typeof RequestRefused>> = {
  missing_descriptor: MissingDescriptor,
  duplicate_descriptor: DuplicateDescriptor,
  invalid_descriptor: InvalidDescriptor,
  malformed_json: MalformedJSON,
  malformed_npy: MalformedNpy,
  malformed_encoding: MalformedEncoding,
  payload_size_mismatch: PayloadSizeMismatch,
  digest_mismatch: DigestMismatch,
  unauthorized: Unauthorized,
  not_found: NotFound,
  method_not_allowed: MethodNotAllowed,
  receive_timeout: ReceiveTimeout,
  tensor_too_large: TensorTooLarge,
  unsupported_media_type: UnsupportedMediaType,
  unsupported_encoding: UnsupportedEncoding,
  misdirected_host: MisdirectedHost,
  headers_too_large: HeadersTooLarge,
  overloaded: Overloaded,
  draining: Draining,
  device_out_of_memory: DeviceOutOfMemory,
  backend_failed: BackendFailed,
  internal_error: InternalError,
};

/** Return the error for a response that is not a success. */
export async function refusalOf(response: Response): Promise<TensorRoundError> {
  const type = response.headers.get("content-type") ?? "";
  if (!type.startsWith("application/problem+json")) {
    return new ProtocolViolation(
      `no tensor-round service answers here: status ${response.status}, ${type || "no type"}`,
    );
  }
  const problem = (await response.json()) as Problem;
  const retryAfter = response.headers.get("retry-after");
  const Refusal = REFUSALS[problem.code] ?? RequestRefused;
  return new Refusal(
    problem,
    retryAfter === null ? undefined : Number(retryAfter),
    response.headers.get("x-request-id") ?? undefined,
  );
}
