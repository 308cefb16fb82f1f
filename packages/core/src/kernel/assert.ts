import { PlatformError } from "@signalbox/contract";

/**
 * What must hold, in production too. A failed assertion ends the run as `internal`; the sentence goes into the cause,
 * where logs see it and callers do not.
 */
export function assert(condition: boolean, mustHold: string): asserts condition {
  if (!condition) {
    throw new PlatformError("internal", undefined, { cause: new Error(`broken rule: ${mustHold}`) });
  }
}
