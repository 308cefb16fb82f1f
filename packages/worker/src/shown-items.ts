/** What readers see of a turn that is gone on with, compared with what its transcript says. */
import { createHash } from "node:crypto";
import type { ShownItem } from "./executor.ts";

/** One item of a turn, as readers are to see it. */
export interface SaidItem {
  readonly kind: ShownItem["kind"];
  readonly text: string;
}

/** Matched by kind and text, one to one and in order. */
export function compareShown(
  said: readonly SaidItem[],
  shown: readonly ShownItem[],
): {
  /** Seen, and not in the transcript. */
  readonly gone: readonly ShownItem[];
  /** In the transcript, and not seen. */
  readonly unseen: readonly SaidItem[];
} {
  const left = [...shown];
  const unseen = said.filter(({ kind, text }) => {
    const digest = createHash("sha256").update(text).digest("hex");
    const place = left.findIndex((item) => item.kind === kind && item.digest === digest);
    if (place >= 0) {
      left.splice(place, 1);
    }
    return place < 0;
  });
  return { gone: left, unseen };
}
