/** Structured log lines. Values must not carry secrets, tokens or message text. */
export interface Log {
  info(message: string, facts?: Readonly<Record<string, unknown>>): void;
  warn(message: string, facts?: Readonly<Record<string, unknown>>): void;
  /** Logs an error once, with its chain of causes. */
  error(message: string, error: unknown, facts?: Readonly<Record<string, unknown>>): void;
}
