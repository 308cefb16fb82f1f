/** Other arguments for a call that somebody is asked about: checked by its tool's schema, and with a digest of their own. */
import { PlatformError, type Hold } from "@signalbox/contract";
import { callDigestText } from "@signalbox/core";
import type { Scope } from "../api/api-record.ts";
import { canonicalArguments } from "../gates/canonical-arguments.ts";
import type { RunQueries } from "../store/queries/run-queries.ts";
import { SnapshotQueries } from "../store/queries/snapshot-queries.ts";
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
  const { snapshotHash } = present(await runs.find(scope, hold.runId));
  const snapshot = present(await new SnapshotQueries(tenants).find(scope.tenantId, snapshotHash));
  const { server, tool: name } = hold.subject;
  const tool = snapshot.tools.find((each) => each.server === server && each.tool === name);
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
