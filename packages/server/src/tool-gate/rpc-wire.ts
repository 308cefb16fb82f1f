/** One way to a tool server that carries JSON-RPC requests and their answers, whatever the transport. */
import type { ErrorCode } from "@signalbox/contract";
import type { Clock } from "@signalbox/core";
import type { Json } from "./mcp-protocol.ts";

export interface RpcRequest {
  readonly method: string;
  /** JSON text of the params, written by the caller so that arguments pass as they are. */
  readonly params: string;
  /** What the request is about, for transports that show it outside of the body: the tool of a call. */
  readonly name: string | null;
  /** Extra headers where the transport has headers. */
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Told of what the server says before it answers, such as how far it is. Must not throw. */
  readonly onMessage?: ((message: Json) => void) | undefined;
  /** Told of an answer that comes after the request was given up, where the transport still hears it. Must not throw. */
  readonly onLate?: ((answer: RpcAnswer) => void) | undefined;
  /** Aborting tells the server to stop; the answer may still come within the wire's grace. */
  readonly signal: AbortSignal;
}

export type RpcAnswer =
  | { readonly kind: "result"; readonly result: Json }
  | { readonly kind: "error"; readonly code: number; readonly message: string; readonly data: unknown };

export interface RpcWire {
  /** Rejects with `NotAnswered`. */
  request(request: RpcRequest): Promise<RpcAnswer>;
  notify(method: string, params: string): Promise<void>;
  /** Told once the server's revision is settled, for transports that announce it. */
  speak(version: string): void;
}

/** No answer came. `sent` tells whether the server may have begun to act. */
export class NotAnswered extends Error {
  override readonly name = "NotAnswered";
  readonly code: ErrorCode;
  readonly sent: boolean;

  constructor(code: ErrorCode, options: { readonly sent: boolean; readonly detail: string; readonly cause?: unknown }) {
    super(options.detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.sent = options.sent;
  }
}

/** How long a call that was told to stop may still be answered, so that its outcome is known after all. */
export const CANCEL_GRACE_MS = 1_000;

/** Whether a request that ended so is worth waiting for a little longer: it was cancelled, or it is a tool's call. */
export function deservesGrace(end: "timeout" | "cancelled", request: Pick<RpcRequest, "name">): boolean {
  return end === "cancelled" || request.name !== null;
}

const LATE_MS = 20;

/** Given with an abort that only ends a wait: without a reason an exception with its stack would be made each time. */
export const SETTLED = "settled";

/** Waits until a request is answered, takes too long, or is no longer wanted, and says which. */
export async function endOf(
  request: Pick<RpcRequest, "timeoutMs" | "signal">,
  { settled, clock }: { readonly settled: AbortSignal; readonly clock: Clock },
): Promise<"answered" | "timeout" | "cancelled"> {
  const early = new AbortController();
  const stop = (): void => early.abort(SETTLED);
  settled.addEventListener("abort", stop, { once: true });
  request.signal.addEventListener("abort", stop, { once: true });
  if (settled.aborted || request.signal.aborted) stop();
  let how = await clock.sleep(request.timeoutMs, early.signal);
  // A process that was held up looks at its sockets once more: an answer that lies there came in time.
  if (how === "elapsed") how = await clock.sleep(LATE_MS, early.signal);
  request.signal.removeEventListener("abort", stop);
  if (settled.aborted) return "answered";
  return how === "elapsed" ? "timeout" : "cancelled";
}

export function notAnswered(end: "timeout" | "cancelled"): NotAnswered {
  return end === "timeout"
    ? new NotAnswered("tool_timeout", { sent: true, detail: "The tool did not answer in time." })
    : new NotAnswered("run_cancelled", { sent: true, detail: "The call was cancelled." });
}
