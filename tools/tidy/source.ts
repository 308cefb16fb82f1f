import { parseSync, Visitor, type Node } from "oxc-parser";

/** What the rules want to know about one code file. */
export interface Source {
  readonly imports: readonly Import[];
  readonly reexports: readonly Reexport[];
  /** Names the file gives to things: variables, functions, types, members of types, parameters. */
  readonly declaredNames: readonly Named[];
  readonly strings: readonly Named[];
  /** Casts without a comment in their statement or on the line before it; one for a statement. */
  readonly silentCasts: readonly Place[];
  /** First use of `async`, `await` or `Promise`. */
  readonly asyncAt: Place | null;
  readonly calls: readonly Call[];
  readonly errors: readonly string[];
}

export interface Place {
  readonly line: number;
}

export interface Named extends Place {
  readonly name: string;
}

export interface Import extends Place {
  readonly from: string;
}

export interface Reexport extends Place {
  readonly from: string;
  readonly everything: boolean;
}

/** A call of a plain function with a literal first argument, as `proves("INV-01", …)`. */
export interface Call extends Place {
  readonly callee: string;
  readonly firstArgument: string | null;
  /** Lengths of the array members in the object literal that follows, by member name. */
  readonly listLengths: ReadonlyMap<string, number>;
}

export function parseSource(path: string, text: string): Source {
  const parsed = parseSync(path, text, { astType: "ts", lang: path.endsWith("ts") ? "ts" : "js" });
  const lineOf = lineFinder(text);
  const commented = commentedLines(parsed.comments, lineOf);
  const collected = new Collector(lineOf, commented);
  collected.visit(parsed.program);

  const imports = [
    ...parsed.module.staticImports.map((found) => ({
      from: found.moduleRequest.value,
      line: lineOf(found.start),
    })),
    ...parsed.module.dynamicImports.flatMap((found) => {
      const literal = /^["'](.*)["']$/.exec(text.slice(found.moduleRequest.start, found.moduleRequest.end));
      return literal?.[1] === undefined ? [] : [{ from: literal[1], line: lineOf(found.start) }];
    }),
  ];
  const reexports = parsed.module.staticExports.flatMap((found) => {
    const entry = found.entries.find((candidate) => candidate.moduleRequest !== null);
    return entry === undefined || entry.moduleRequest === null
      ? []
      : [
          {
            from: entry.moduleRequest.value,
            line: lineOf(found.start),
            everything: found.entries.some((one) => one.importName.kind.startsWith("All")),
          },
        ];
  });
  return {
    imports: [...imports, ...collected.fileUrls],
    reexports,
    declaredNames: collected.names,
    strings: collected.strings,
    silentCasts: collected.casts,
    asyncAt: collected.asyncAt,
    calls: collected.calls,
    errors: parsed.errors.map((error) => error.message),
  };
}

type Visitors = ConstructorParameters<typeof Visitor>[0];
type CallNode = Extract<Node, { readonly type: "CallExpression" }>;

class Collector {
  readonly names: Named[] = [];
  readonly strings: Named[] = [];
  readonly casts: Place[] = [];
  readonly calls: Call[] = [];
  /** `new URL("./x.ts", import.meta.url)`: how a process names the file another process starts with. */
  readonly fileUrls: Import[] = [];
  asyncAt: Place | null = null;
  readonly #lineOf: (offset: number) => number;
  readonly #commented: ReadonlySet<number>;
  readonly #statements: number[] = [];

  constructor(lineOf: (offset: number) => number, commented: ReadonlySet<number>) {
    this.#lineOf = lineOf;
    this.#commented = commented;
  }

  visit(program: Parameters<Visitor["visit"]>[0]): void {
    new Visitor({ ...this.#nameVisitors(), ...this.#useVisitors(), ...this.#statementVisitors() }).visit(program);
  }

  #nameVisitors(): Visitors {
    const member = (node: { readonly key: Node; readonly computed: boolean }): void => {
      if (!node.computed) {
        this.#declare(node.key);
      }
    };
    const functionLike = (node: {
      readonly params: readonly Node[];
      readonly async: boolean;
      readonly start: number;
    }) => {
      node.params.forEach((parameter) => this.#declarePattern(parameter));
      if (node.async) {
        this.#async(node.start);
      }
    };
    return {
      VariableDeclarator: (node) => this.#declarePattern(node.id),
      FunctionDeclaration: (node) => {
        this.#declare(node.id);
        functionLike(node);
      },
      FunctionExpression: functionLike,
      ArrowFunctionExpression: functionLike,
      ClassDeclaration: (node) => this.#declare(node.id),
      TSInterfaceDeclaration: (node) => this.#declare(node.id),
      TSTypeAliasDeclaration: (node) => this.#declare(node.id),
      TSPropertySignature: member,
      TSMethodSignature: member,
      PropertyDefinition: member,
      MethodDefinition: member,
    };
  }

  #useVisitors(): Visitors {
    return {
      Literal: (node) => {
        if (typeof node.value === "string") {
          this.strings.push({ name: node.value, line: this.#lineOf(node.start) });
        }
      },
      TemplateLiteral: (node) => {
        const text = node.quasis.map((part) => part.value.cooked ?? "").join("?");
        this.strings.push({ name: text, line: this.#lineOf(node.start) });
      },
      TSAsExpression: (node) => {
        const isConst =
          node.typeAnnotation.type === "TSTypeReference" &&
          node.typeAnnotation.typeName.type === "Identifier" &&
          node.typeAnnotation.typeName.name === "const";
        if (!isConst) {
          this.#cast(node);
        }
      },
      AwaitExpression: (node) => this.#async(node.start),
      TSTypeReference: (node) => {
        if (node.typeName.type === "Identifier" && node.typeName.name === "Promise") {
          this.#async(node.start);
        }
      },
      CallExpression: (node) => this.#call(node),
      NewExpression: (node) => {
        const [file, base] = node.arguments;
        const isUrl =
          node.callee.type === "Identifier" && node.callee.name === "URL" && base?.type === "MemberExpression";
        if (isUrl && file?.type === "Literal" && typeof file.value === "string") {
          this.fileUrls.push({ from: file.value, line: this.#lineOf(node.start) });
        }
      },
    };
  }

  #statementVisitors(): Visitors {
    const enter = (node: { readonly start: number }): void => void this.#statements.push(node.start);
    const leave = (): void => void this.#statements.pop();
    return {
      VariableDeclaration: enter,
      "VariableDeclaration:exit": leave,
      ReturnStatement: enter,
      "ReturnStatement:exit": leave,
      ExpressionStatement: enter,
      "ExpressionStatement:exit": leave,
      ThrowStatement: enter,
      "ThrowStatement:exit": leave,
    };
  }

  #cast(node: { readonly start: number; readonly end: number }): void {
    const first = this.#lineOf(this.#statements.at(-1) ?? node.start);
    const last = this.#lineOf(node.end);
    for (let line = first - 1; line <= last; line += 1) {
      if (this.#commented.has(line)) {
        return;
      }
    }
    if (this.casts.at(-1)?.line !== first) {
      this.casts.push({ line: first });
    }
  }

  #async(offset: number): void {
    this.asyncAt ??= { line: this.#lineOf(offset) };
  }

  #call(node: CallNode): void {
    if (node.callee.type !== "Identifier") {
      return;
    }
    const [first, second] = node.arguments;
    const listLengths = new Map<string, number>();
    if (second?.type === "ObjectExpression") {
      for (const property of second.properties) {
        if (
          property.type === "Property" &&
          property.key.type === "Identifier" &&
          property.value.type === "ArrayExpression"
        ) {
          listLengths.set(property.key.name, property.value.elements.length);
        }
      }
    }
    this.calls.push({
      callee: node.callee.name,
      firstArgument: first?.type === "Literal" && typeof first.value === "string" ? first.value : null,
      listLengths,
      line: this.#lineOf(node.start),
    });
  }

  #declare(id: Node | null): void {
    if (id?.type === "Identifier") {
      this.names.push({ name: id.name, line: this.#lineOf(id.start) });
    }
  }

  #declarePattern(pattern: Node): void {
    switch (pattern.type) {
      case "AssignmentPattern":
        return this.#declarePattern(pattern.left);
      case "RestElement":
        return this.#declarePattern(pattern.argument);
      case "ArrayPattern":
        return pattern.elements.forEach((element) => element !== null && this.#declarePattern(element));
      case "ObjectPattern":
        return pattern.properties.forEach((property) =>
          // A destructured name that is kept as it was is somebody else's name.
          property.type === "Property" && !property.shorthand ? this.#declarePattern(property.value) : undefined,
        );
      default:
        return this.#declare(pattern);
    }
  }
}

function lineFinder(text: string): (offset: number) => number {
  const starts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) {
    starts.push(at + 1);
  }
  return (offset) => {
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((starts[middle] ?? 0) <= offset) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low + 1;
  };
}

function commentedLines(
  comments: readonly { readonly start: number; readonly end: number }[],
  lineOf: (offset: number) => number,
): ReadonlySet<number> {
  const lines = new Set<number>();
  for (const comment of comments) {
    for (let line = lineOf(comment.start); line <= lineOf(comment.end); line += 1) {
      lines.add(line);
    }
  }
  return lines;
}
