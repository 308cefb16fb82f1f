/**
 * Names of what several servers offer at one address: tools and prompts carry their server before two underscores, URIs
 * carry it in their scheme, so that nothing of one server can stand for something of another.
 */
import { isObject, type Json } from "../mcp-protocol.ts";

export interface Named {
  readonly server: string;
  readonly name: string;
}

export interface Naming {
  /** How clients know a prompt of this server. */
  name(named: Named): string;
  parseName(name: unknown): Named | null;
  uri(named: Named): string;
  parseUri(uri: unknown): Named | null;
}

const SEPARATOR = "__";
const URI_FORM = /^mcp\+([a-z0-9][a-z0-9-]*)\+(.+)$/s;

export const PREFIXED: Naming = {
  name: ({ server, name }) => `${server}${SEPARATOR}${name}`,
  parseName(name) {
    if (typeof name !== "string") return null;
    const at = name.indexOf(SEPARATOR);
    return at <= 0 ? null : { server: name.slice(0, at), name: name.slice(at + SEPARATOR.length) };
  },
  uri: ({ server, name }) => `mcp+${server}+${name}`,
  parseUri(uri) {
    const [, server, name] = typeof uri === "string" ? (URI_FORM.exec(uri) ?? []) : [];
    return server === undefined || name === undefined ? null : { server, name };
  },
};

/** At the address of one server its own names do. */
export function plainNaming(server: string): Naming {
  const parse = (name: unknown): Named | null => (typeof name === "string" ? { server, name } : null);
  return { name: ({ name }) => name, parseName: parse, uri: ({ name }) => name, parseUri: parse };
}

/** Members that hold URIs of the server's, in contents, links and embedded resources. */
export function renameUris(naming: Naming, server: string, value: Json): Json {
  const renamed = (each: unknown): unknown =>
    isObject(each) && typeof each.uri === "string" ? { ...each, uri: naming.uri({ server, name: each.uri }) } : each;
  const inBlock = (block: unknown): unknown => {
    if (!isObject(block)) return block;
    if (block.type === "resource_link") return renamed(block);
    return block.type === "resource" ? { ...block, resource: renamed(block.resource) } : block;
  };
  const inMessage = (message: unknown): unknown =>
    isObject(message) ? { ...message, content: inBlock(message.content) } : message;
  const { contents, content, messages } = value;
  return {
    ...value,
    ...(Array.isArray(contents) ? { contents: contents.map(renamed) } : {}),
    ...(Array.isArray(content) ? { content: content.map(inBlock) } : {}),
    ...(Array.isArray(messages) ? { messages: messages.map(inMessage) } : {}),
  };
}
