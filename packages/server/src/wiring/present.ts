/** What is not there, or not for the caller, does not exist. */
import { PlatformError } from "@signalbox/contract";

export function present<T>(row: T | null): T {
  if (row === null) throw new PlatformError("not_found");
  return row;
}
