/** Every request as it came and what became of it. */
import type { IncomingHttpHeaders } from "node:http";
import type { WireName } from "./conversation.ts";
import { newWatchers } from "./watchers.ts";

/** One request that `sim` got, and how its response went. Goes on changing until `closedAtMs` is set. */
export interface RecordedRequest {
  /** From 0, in the order of arrival. */
  readonly ordinal: number;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The parsed body; null when there was none, when it was no JSON or when bodies are not recorded. */
  readonly body: unknown;
  readonly bodyBytes: number;
  /** Null for requests that are no model call. */
  readonly wire: WireName | null;
  /** Milliseconds since the epoch, when headers and body had arrived. */
  readonly arrivedAtMs: number;
  /** Null until response headers are written. */
  readonly status: number | null;
  /** Tokens written so far. */
  readonly tokenCount: number;
  /** When the response was finished or the socket closed; null while it is open. */
  readonly closedAtMs: number | null;
  /** True when everything of the response was written; false for a response that was cut or abandoned. */
  readonly finished: boolean;
}

export type MutableRecord = { -readonly [Field in keyof RecordedRequest]: RecordedRequest[Field] };

export interface Recording {
  readonly requests: readonly RecordedRequest[];
  readonly add: (record: MutableRecord) => void;
  /** To be called after every change of a record. */
  readonly changed: () => void;
  /** Waits until the condition holds. Ends with `internal` when it does not within the bound. */
  readonly waitFor: (holds: (requests: readonly RecordedRequest[]) => boolean, withinMs: number) => Promise<void>;
}

export function newRecording(mostRecorded: number): Recording {
  const requests: MutableRecord[] = [];
  const { changed, waitFor } = newWatchers();
  const seen = () => requests.map(({ method, path, status }) => `${method} ${path} ${status ?? "open"}`).join(", ");
  return {
    requests,
    add(record) {
      requests.push(record);
      if (requests.length > mostRecorded) {
        requests.shift();
      }
      changed();
    },
    changed,
    waitFor: (holds, withinMs) => waitFor({ holds: () => holds(requests), withinMs, seen }),
  };
}
