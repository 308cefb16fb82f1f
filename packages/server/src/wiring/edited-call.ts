/** Other arguments for a call that somebody is asked about: checked by its tool's schema, and with a digest of their own. */
import { PlatformError, type Hold, type SnapshotTool } from "@signalbox/contract";
import { callDigestText } from "@signalbox/core";
import type { Scope } from "../api/api-record.ts";
import { canonicalArguments } from "../gates/canonical-arguments.ts";
import type { RunQueries } from "../store/queries/run-queries.ts";
import { SnapshotQueries } from "../store/queries/snapshot-queries.ts";
import { ToolQueries } from "../store/queries/tool-queries.ts";
import type { Tenants } from "../store/tenant-database.ts";
import { systemDigest } from "../system/ports.ts";
import { ArgumentSchemas } from "../tool-gate/argument-schema.ts";
import { present } from "./present.ts";

/** What a decision to change the arguments brings to the record. */
interface EditedCall {
  readonly arguments: unknown;
  readonly argumentsJson: string;
  readonly digest: string;
}

const schemas = new ArgumentSchemas();

export async function editOf(
  { tenants, runs }: { readonly tenants: Tenants; readonly runs: RunQueries },
  { scope, hold, given }: { readonly scope: Scope; readonly hold: Hold; readonly given: unknown },
): Promise<EditedCall> {
  const argumentsJson = canonicalArguments(given);
  if (argumentsJson === null) {
    throw new PlatformError("invalid_request", "Say in `arguments` what the tool is to be called with instead.", {
      fields: [{ pointer: "/arguments", detail: "is needed for the decision edit, as an object" }],
    });
  }
  const tool =
    hold.runId === null ? await pinnedTool(tenants, scope, hold) : await frozenTool({ tenants, runs }, scope, hold);
  if (tool === undefined) throw new PlatformError("command_refused", "The call of this approval cannot be changed.");
  const { definitionHash, inputSchema } = tool;
  const problems = schemas.check({ definitionHash, schema: inputSchema }, JSON.parse(argumentsJson));
  if (problems.length > 0) {
    const fields = problems.map(({ pointer, detail }) => ({ pointer: `/arguments${pointer}`, detail }));
    throw new PlatformError("tool_arguments_invalid", undefined, { fields });
  }
  const digest = systemDigest.sha256Hex(
    callDigestText({ server: tool.server, tool: tool.tool, definitionHash, argumentsJson }),
  );
  const edited: unknown = JSON.parse(argumentsJson);
  return { arguments: edited, argumentsJson, digest };
}

type EditedTool = Pick<SnapshotTool, "server" | "tool" | "definitionHash" | "inputSchema">;

/** As the run has it. */
async function frozenTool(
  { tenants, runs }: { readonly tenants: Tenants; readonly runs: RunQueries },
  scope: Scope,
  { runId, subject }: Hold,
): Promise<EditedTool | undefined> {
  const { snapshotHash } = present(await runs.find(scope, runId ?? ""));
  const snapshot = present(await new SnapshotQueries(tenants).find(scope.tenantId, snapshotHash));
  return snapshot.tools.find((each) => each.server === subject.server && each.tool === subject.tool);
}

/** As it is pinned, where that is what was asked about. */
async function pinnedTool(tenants: Tenants, { tenantId }: Scope, { subject }: Hold): Promise<EditedTool | undefined> {
  const pins = await new ToolQueries(tenants).list(tenantId);
  const pin = pins.find((each) => each.server === subject.server && each.tool === subject.tool);
  if (pin === undefined || pin.definitionHash !== subject.definitionHash) return undefined;
  const { server, tool, definitionHash, definition } = pin;
  const schema = definition.inputSchema;
  // An object is a record of its members.
  const inputSchema = typeof schema === "object" && schema !== null ? (schema as EditedTool["inputSchema"]) : {};
  return { server, tool, definitionHash, inputSchema };
}
