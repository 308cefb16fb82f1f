/** The desk of tools over a process's record. */
import { PlatformError, type McpServer, type Tool, type ToolDetail, type ToolsQuery } from "@signalbox/contract";
import { diffDefinitions, type Digest, type ToolRecord } from "@signalbox/core";
import type { Once, Page } from "../api/api-record.ts";

import type { ToolDesk } from "../api/tool-desk.ts";
import type { ToolCommands } from "../store/queries/tool-commands.ts";
import { wireName } from "../tool-gate/tool-definition.ts";
import { timeOf, timeOrNull } from "./api-shapes.ts";

export interface ToolDeskParts {
  readonly commands: ToolCommands;
  readonly digest: Digest;
}

export function createToolDesk(parts: ToolDeskParts): ToolDesk {
  const { commands, digest } = parts;
  return {
    tools: async ({ tenantId }, query) => pageFrom(await shownTools(parts, tenantId), query),
    async tool({ tenantId }, name) {
      const record = await find(parts, tenantId, name);
      const { server, tool } = record;
      return detailed(record, await commands.history({ tenantId, server, tool }), digest);
    },
    async approve({ tenantId }, { name, digest: shownDigest, actor }, once) {
      const { server, tool } = await find(parts, tenantId, name);
      const isShown = (record: ToolRecord): boolean => digestOf(record, digest) === shownDigest;
      const kept = await commands.approve({ tenantId, server, tool, actor }, isShown, shownOnce(once, digest));
      return kept.kind === "replayed" ? kept : { kind: "created", value: shown(kept.value, digest) };
    },
    async classify({ tenantId }, { name, change, actor }, once) {
      const { server, tool } = await find(parts, tenantId, name);
      const { effect, approve, trusted, timeoutMs } = change;
      const said = {
        ...(effect === undefined ? {} : { effect }),
        ...(approve === undefined ? {} : { approve }),
        ...(trusted === undefined ? {} : { isTrusted: trusted }),
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      };
      const kept = await commands.classify({ tenantId, server, tool, actor }, said, shownOnce(once, digest));
      return kept.kind === "replayed" ? kept : { kind: "created", value: shown(kept.value, digest) };
    },
    servers: async ({ tenantId }) =>
      (await commands.servers(tenantId)).map(
        ({ server, transport, origin, listedAtMs, failingSinceMs, problem, leftOut }): McpServer => ({
          name: server,
          transport,
          origin,
          listedAt: timeOrNull(listedAtMs),
          failingSince: timeOrNull(failingSinceMs),
          problem,
          leftOut: [...leftOut],
        }),
      ),
  };
}

function shownOnce(once: Once<Tool> | null, digest: Digest): Once<ToolRecord> | null {
  return once === null ? null : { ...once, answer: (record) => once.answer(shown(record, digest)) };
}

async function shownTools({ commands, digest }: ToolDeskParts, tenantId: string): Promise<readonly Tool[]> {
  const tools = (await commands.list(tenantId)).map((record) => shown(record, digest));
  return tools.sort((left, right) => (left.name < right.name ? -1 : 1));
}

/** A cursor is the last name of the page before. */
function pageFrom(tools: readonly Tool[], { server, state, limit, cursor }: ToolsQuery): Page<Tool> {
  const after = cursor === undefined ? "" : Buffer.from(cursor, "base64url").toString("utf8");
  if (cursor !== undefined && Buffer.from(after, "utf8").toString("base64url") !== cursor) {
    throw new PlatformError("invalid_cursor");
  }
  const meant = tools.filter(
    (tool) =>
      tool.name > after &&
      (server === undefined || tool.server === server) &&
      (state === undefined || tool.state === state),
  );
  const data = meant.slice(0, limit);
  const last = data.at(-1);
  const isMore = last !== undefined && meant.length > data.length;
  return { data, nextCursor: isMore ? Buffer.from(last.name, "utf8").toString("base64url") : null };
}

async function find({ commands, digest }: ToolDeskParts, tenantId: string, name: string): Promise<ToolRecord> {
  const found = (await commands.list(tenantId)).find(({ server, tool }) => wireName(server, tool, digest) === name);
  if (found === undefined) throw new PlatformError("not_found");
  return found;
}

/** Of what would be approved now: the form and the address, which are trusted together. */
function digestOf({ definitionHash, originHash, seen }: ToolRecord, digest: Digest): string {
  return digest.sha256Hex(`${seen?.definitionHash ?? definitionHash} ${seen?.originHash ?? originHash ?? ""}`);
}

function shown(record: ToolRecord, digest: Digest): Tool {
  const { server, tool, title, state, isOffered, definitionHash, origin, lints, approvedAtMs, classification } = record;
  const { isClassified, effect, approve, isTrusted, timeoutMs } = classification;
  return {
    name: wireName(server, tool, digest),
    server,
    tool,
    title,
    state,
    offered: isOffered,
    definitionHash,
    origin,
    digest: digestOf(record, digest),
    lints: [...lints],
    approvedAt: timeOrNull(approvedAtMs),
    classified: isClassified,
    effect,
    approve,
    trusted: isTrusted,
    timeoutMs,
  };
}

function detailed(
  record: ToolRecord,
  history: Awaited<ReturnType<ToolCommands["history"]>>,
  digest: Digest,
): ToolDetail {
  const { definition, seen } = record;
  const listed =
    seen === null
      ? null
      : {
          definition: seen.definition,
          definitionHash: seen.definitionHash,
          origin: seen.origin,
          changes: diffDefinitions(definition, seen.definition).map((change) => ({ ...change })),
        };
  return {
    ...shown(record, digest),
    definition,
    listed,
    history: history.map(({ event, definitionHash, origin, actor, atMs }) => ({
      event,
      definitionHash,
      origin,
      by: actor === null ? null : decider(actor),
      at: timeOf(atMs),
    })),
  };
}

/** The store keeps actors as canonical JSON. */
function decider(text: string): NonNullable<ToolDetail["history"][number]["by"]> {
  // Written with `actorText`, whose form these two members have.
  const { keyId, user } = JSON.parse(text) as { readonly keyId: string; readonly user: string | null };
  return { keyId, user };
}
