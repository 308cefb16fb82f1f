/**
 * One model call between a committed intent and its settlement. Whatever happens in between (an answer, a refusal, a
 * cut, an engine that went away), the call is settled exactly once, and before the engine sees how it ended.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  asPlatformError,
  ERROR_CODES,
  NO_USAGE,
  PlatformError,
  type ErrorCode,
  type ModelCallId,
} from "@signalbox/contract";
import type { Clock, Digest, GateRecord, Log, Randomness, SlotView, ToolJudge } from "@signalbox/core";
import type { HttpClient } from "../gates/http-client.ts";
import { readBody } from "../gates/message-body.ts";
import type { OpenCall, OpenCalls } from "../gates/open-calls.ts";
import type { Settling } from "../gates/settling.ts";
import { settleCall, type CallOutcome } from "./call-outcome.ts";
import type { PreparedRequest } from "./engine-request.ts";
import { MessageStream } from "./message-stream.ts";
import type { ModelGateLimits } from "./model-gate-limits.ts";
import { ProviderSilence } from "./provider-silence.ts";
import { providerHeaders, providerUrl } from "./providers.ts";
import { relayStream, type StreamEnd } from "./stream-relay.ts";
import { readWholeMessage } from "./whole-message.ts";
import { codeOfErrorType, errorEvent, ourError, providerError, sendError, type WireError } from "./wire-error.ts";
import { estimatedUsage } from "./wire-usage.ts";

export interface ModelCallPorts {
  readonly record: Omit<GateRecord, "openToolCall">;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly judge: ToolJudge;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly http: HttpClient;
  readonly open: OpenCalls;
  readonly settling: Settling;
  readonly limits: ModelGateLimits;
}

export interface ModelCallInput {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Of the engine's address, without the question mark. */
  readonly query: string;
  readonly prepared: PreparedRequest;
  readonly modelCallId: ModelCallId;
  readonly tokenHash: string;
  /** The slot as the intent's statement found it. */
  readonly view: SlotView;
}

/**
 * How an engine wants to hear of a stream that broke in a way that may pass. By default with an `error` event. With
 * `end` the stream just ends after its last whole frame: the Claude CLI gives up on an error event inside an open text
 * block, but tries again when a stream ends there.
 */
const BROKEN_STREAM_HEADER = "signalbox-broken-stream";

/** Error types after which trying again is useless. */
const FINAL_TYPES: ReadonlySet<string> = new Set([
  "authentication_error",
  "billing_error",
  "invalid_request_error",
  "not_found_error",
  "permission_error",
  "request_too_large",
]);

const LEAVE_MS = 500;
/** Given with an abort that only ends a wait: without a reason an exception with its stack would be made. */
const DONE = "done";
const ERROR_BODY_BYTES_MAX = 64 * 1024;

export class ModelCall {
  readonly #ports: ModelCallPorts;
  readonly #input: ModelCallInput;
  readonly #ending = new AbortController();
  readonly #message = new MessageStream();
  readonly #silence: ProviderSilence;
  #upstream: IncomingMessage | null = null;
  #engineGone = false;

  constructor(ports: ModelCallPorts, input: ModelCallInput) {
    this.#ports = ports;
    this.#input = input;
    this.#silence = new ProviderSilence(ports.clock, {
      isHeldBack: () => this.#upstream?.isPaused() === true,
      onSilent: () => this.#ending.abort(new PlatformError("provider_timeout")),
    });
  }

  /** Resolves when the call is settled and answered. Rejects only when its outcome could not be recorded. */
  async run(): Promise<void> {
    const { response, tokenHash, view, prepared } = this.#input;
    const { open, limits } = this.#ports;
    const onClose = (): void => this.#engineWent();
    const openCall = this.#openCall(tokenHash, view);
    response.on("close", onClose);
    if (response.destroyed) this.#engineWent();
    open.add(openCall);
    this.#silence.watch(prepared.stream ? limits.streamIdleMs : limits.answerMs);
    try {
      await this.#relay();
    } finally {
      response.off("close", onClose);
      open.remove(openCall);
      await this.#silence[Symbol.asyncDispose]();
      await this.#leaveProvider();
    }
  }

  async #relay(): Promise<void> {
    let upstream: IncomingMessage;
    try {
      upstream = await this.#send();
    } catch (thrown) {
      await this.#refuse(ourError(this.#reasonOf(thrown, "provider_unreachable")));
      return;
    }
    this.#upstream = upstream;
    if (upstream.statusCode !== 200) {
      await this.#relayRefusal(upstream);
    } else if (!this.#input.prepared.stream) {
      await this.#relayWhole(upstream);
    } else if ((upstream.headers["content-type"] ?? "").startsWith("text/event-stream")) {
      await this.#relayStream(upstream);
    } else {
      const detail = "The model provider did not answer with a stream.";
      await this.#refuse(ourError(new PlatformError("provider_stream_broken", detail)));
    }
  }

  #send(): Promise<IncomingMessage> {
    const { prepared, request, query } = this.#input;
    return this.#ports.http.send({
      url: providerUrl(prepared.route.provider, "/v1/messages", query),
      method: "POST",
      headers: providerHeaders(request.headers, prepared.route),
      body: prepared.body,
      signal: this.#ending.signal,
    });
  }

  async #relayRefusal(upstream: IncomingMessage): Promise<void> {
    const { apiKey } = this.#input.prepared.route.provider;
    const body = await readBody(upstream, ERROR_BODY_BYTES_MAX).catch(() => Buffer.alloc(0));
    const answer = { status: upstream.statusCode ?? 502, headers: upstream.headers, body: body.toString("utf8") };
    await this.#refuse(providerError({ ...answer, nowMs: this.#ports.clock.nowMs(), apiKey }));
  }

  async #relayWhole(upstream: IncomingMessage): Promise<void> {
    let message: ReturnType<typeof readWholeMessage>;
    try {
      message = readWholeMessage((await readBody(upstream, this.#ports.limits.answerBytesMax)).toString("utf8"));
    } catch (thrown) {
      await this.#refuse(ourError(this.#reasonOf(thrown, "provider_stream_broken")));
      return;
    }
    const { usage, servedModel, stopReason, calls } = message;
    const accepted = await this.#settle({
      state: "succeeded",
      usage,
      servedModel,
      stopReason,
      errorCode: calls === null ? "output_truncated" : null,
      calls: calls ?? [],
    });
    if (!accepted) {
      sendError(this.#input.response, ourError(notAccepted()));
      return;
    }
    this.#input.response.writeHead(200, this.#answerHeaders(upstream));
    this.#input.response.end(message.body);
  }

  async #relayStream(upstream: IncomingMessage): Promise<void> {
    const { response } = this.#input;
    response.writeHead(200, this.#answerHeaders(upstream));
    const end = await relayStream({
      upstream,
      response,
      message: this.#message,
      signal: this.#ending.signal,
      onProgress: () => this.#silence.heard(),
    });
    let last: Buffer | string;
    try {
      last = await this.#lastBytes(end);
    } catch (thrown) {
      response.end(this.#told(ourError(asPlatformError(thrown))));
      throw thrown;
    }
    if (!response.destroyed) response.end(last);
  }

  /** Settles the call and returns what the engine gets after that. */
  async #lastBytes(end: StreamEnd): Promise<Buffer | string> {
    const message = this.#message;
    if (end.kind === "complete") {
      const calls = message.calls();
      const accepted = await this.#settle({
        state: "succeeded",
        servedModel: message.servedModel,
        usage: message.usage ?? NO_USAGE,
        stopReason: message.stopReason,
        errorCode: calls === null ? "output_truncated" : null,
        calls: calls ?? [],
      });
      if (!accepted) return errorEvent(ourError(notAccepted()));
      return calls === null ? message.heldWithoutCalls() : message.held();
    }
    if (end.kind === "provider_error") {
      await this.#settleBroken(codeOfErrorType(message.errorType));
      return this.#endsQuietly(message.errorType) ? "" : end.frame.bytes;
    }
    await this.#settleBroken(end.error.code);
    return this.#told(ourError(end.error));
  }

  /** What was received is charged as an estimate; a provider that broke before its message had begun charges nothing. */
  async #settleBroken(code: ErrorCode): Promise<void> {
    const { usage, receivedChars, servedModel, stopReason } = this.#message;
    const byProvider = ERROR_CODES[code].fault === "provider" && !this.#engineGone;
    await this.#settle({
      state: usage === null && byProvider ? "failed" : "estimated",
      usage: estimatedUsage(usage, { chars: receivedChars, stopReason }),
      servedModel,
      stopReason,
      errorCode: this.#engineGone ? null : code,
      calls: [],
    });
  }

  /** Ends a call that has no message. What a provider would have charged for one that was cut is not known. */
  async #refuse(error: WireError): Promise<void> {
    const byProvider = ERROR_CODES[error.code].fault === "provider" && !this.#engineGone;
    const isCut = this.#ending.signal.aborted && !byProvider;
    await this.#settle({
      state: byProvider || (error.status < 500 && !isCut) ? "failed" : "estimated",
      usage: NO_USAGE,
      servedModel: "",
      stopReason: null,
      errorCode: this.#engineGone ? null : error.code,
      calls: [],
    });
    sendError(this.#input.response, error);
  }

  #settle(outcome: CallOutcome): Promise<boolean> {
    const { modelCallId, view, prepared } = this.#input;
    const { simulated } = prepared.route.provider;
    return settleCall(this.#ports, { modelCallId, view, simulated }, outcome);
  }

  #told(error: WireError): string {
    return ERROR_CODES[error.code].retryable && this.#endsQuietly("overloaded_error") ? "" : errorEvent(error);
  }

  #endsQuietly(type: string): boolean {
    return this.#input.request.headers[BROKEN_STREAM_HEADER] === "end" && !FINAL_TYPES.has(type);
  }

  #answerHeaders(upstream: IncomingMessage): Readonly<Record<string, string>> {
    const requestId = upstream.headers["request-id"];
    return {
      "content-type": upstream.headers["content-type"] ?? "application/json",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
      ...(typeof requestId === "string" ? { "request-id": requestId } : {}),
    };
  }

  /** A provider that has said everything may end its answer, so that the connection is kept; otherwise it is closed. */
  async #leaveProvider(): Promise<void> {
    const upstream = this.#upstream;
    if (upstream === null || upstream.complete || upstream.destroyed || this.#ending.signal.aborted) return;
    const ended = new AbortController();
    upstream.once("end", () => ended.abort(DONE));
    await this.#ports.clock.sleep(LEAVE_MS, ended.signal);
    if (!upstream.complete) this.#ending.abort(new PlatformError("provider_stream_broken"));
  }

  #engineWent(): void {
    if (this.#input.response.writableFinished) return;
    this.#engineGone = true;
    this.#ending.abort(new PlatformError("run_cancelled", "The engine went away."));
  }

  #openCall(tokenHash: string, view: SlotView): OpenCall {
    return {
      tokenHash,
      conversationId: view.conversationId,
      runId: view.run?.runId ?? null,
      generation: view.run?.generation ?? 0,
      cut: (code) => this.#ending.abort(new PlatformError(code)),
    };
  }

  #reasonOf(thrown: unknown, otherwise: ErrorCode): PlatformError {
    if (this.#ending.signal.aborted) return asPlatformError(this.#ending.signal.reason);
    return thrown instanceof PlatformError ? thrown : new PlatformError(otherwise, undefined, { cause: thrown });
  }
}

function notAccepted(): PlatformError {
  return new PlatformError("stale_generation", "The calls of this message could not be recorded as proposals.");
}
