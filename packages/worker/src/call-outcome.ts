/** What a model is told of a call whose result its transcript lacks: the ledger's word, and never a guess. */
import { wellFormedJson } from "@signalbox/contract";
import type { CallOutcome } from "./executor.ts";
import type { ToolContent, ToolOutcome } from "./gate-clients/tool-client.ts";

const UNKNOWN =
  "The outcome of this call is not known: it was open when the worker was lost. It may have taken effect, or not.";
const NOT_MADE = "This call was not made: the worker was lost before it began. Make it again if it is still needed.";
const REFUSED = "This call was refused.";

/** `outcome` is `undefined` for a call that the ledger does not have. */
export function outcomeOfLostCall(outcome: CallOutcome | undefined): ToolOutcome {
  const recorded = outcome === undefined ? null : recordedResult(outcome);
  if (recorded !== null) {
    return recorded;
  }
  switch (outcome?.state) {
    case "succeeded":
      return { content: [], isError: false };
    case "failed":
    case "executing":
    case "unknown":
      return said(UNKNOWN);
    case "denied":
      return said(REFUSED);
    default:
      return said(NOT_MADE);
  }
}

/** Whether the call has an outcome that stands: only then is its result what the tool said. */
function recordedResult({ state, resultJson }: CallOutcome): ToolOutcome | null {
  if (resultJson === "" || (state !== "succeeded" && state !== "failed" && state !== "denied")) {
    return null;
  }
  const result: unknown = JSON.parse(resultJson);
  if (typeof result !== "object" || result === null || !("content" in result) || !Array.isArray(result.content)) {
    return null;
  }
  // An MCP result as the tool gate gave it to an engine, or would have.
  const content = wellFormedJson(result.content) as readonly ToolContent[];
  // A person may have answered in place of the tool: then the result of a denial says itself that it is no error.
  const says = "isError" in result ? result.isError : undefined;
  return { content, isError: says === true || (state !== "succeeded" && says !== false) };
}

function said(text: string): ToolOutcome {
  return { content: [{ type: "text", text }], isError: true };
}
