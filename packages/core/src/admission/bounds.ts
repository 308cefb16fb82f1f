/** What a message may bring, checked before anything is recorded. */
import { PlatformError, wellFormed, type ErrorCode, type FieldError } from "@signalbox/contract";
import type { Limits } from "../kernel/limits.ts";
import type { MessageIntent } from "./intent.ts";

export interface CheckedMessage {
  readonly text: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The message as it enters the record: within its bounds and well-formed. */
export function checkMessage(intent: MessageIntent, limits: Limits): CheckedMessage {
  const text = wellFormed(intent.text);
  if (text.trim() === "") {
    refuse("invalid_request", "/content", "A message needs text.");
  }
  if (text.length > limits.messageChars) {
    refuse("payload_too_large", "/content", `A message has at most ${limits.messageChars} characters.`);
  }
  const key = intent.idempotency?.key;
  if (key !== undefined && (key === "" || key.length > limits.idempotencyKeyChars)) {
    refuse("invalid_request", "Idempotency-Key", `The key has 1 to ${limits.idempotencyKeyChars} characters.`);
  }
  return { text, metadata: checkMetadata(intent.metadata, limits) };
}

function checkMetadata(metadata: Readonly<Record<string, string>>, limits: Limits): Readonly<Record<string, string>> {
  const entries = Object.entries(metadata);
  if (entries.length > limits.metadataCount) {
    refuse("invalid_request", "/metadata", `Metadata has at most ${limits.metadataCount} entries.`);
  }
  for (const [key, value] of entries) {
    if (key === "" || key.length > limits.metadataKeyChars) {
      refuse("invalid_request", "/metadata", `A metadata key has 1 to ${limits.metadataKeyChars} characters.`);
    }
    if (value.length > limits.metadataValueChars) {
      const pointer = `/metadata/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      refuse("invalid_request", pointer, `A metadata value has at most ${limits.metadataValueChars} characters.`);
    }
  }
  return Object.fromEntries(entries.map(([key, value]) => [wellFormed(key), wellFormed(value)]));
}

function refuse(code: ErrorCode, pointer: FieldError["pointer"], detail: string): never {
  throw new PlatformError(code, detail, { fields: [{ pointer, detail }] });
}
