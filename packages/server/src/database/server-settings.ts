/** What `signalbox.conf` in the cluster says. Written anew before each start; `ALTER SYSTEM` still has the last word. */

export const SETTINGS_FILE = "signalbox.conf";

/** Appended once to the `postgresql.conf` that initdb made. */
export const SETTINGS_INCLUDE = `\ninclude_if_exists = '${SETTINGS_FILE}'\n`;

/** Only the socket, and who reaches the socket's private directory is trusted. */
export const ACCESS_RULES = "local all all trust\nlocal replication all trust\n";

const SETTINGS: readonly (readonly [name: string, value: string, why: string])[] = [
  ["listen_addresses", "''", "no TCP port: the socket directory decides who may connect"],
  ["unix_socket_permissions", "0700", ""],
  ["cluster_name", "'signalbox'", "names the processes in ps"],
  ["max_connections", "200", "several nodes with a pool each"],
  ["shared_buffers", "64MB", "small, the page cache does the rest"],
  ["io_method", "sync", "spares three helper processes"],
  ["max_parallel_workers_per_gather", "0", "short statements; also needs no /dev/shm, which containers keep tiny"],
  ["max_logical_replication_workers", "0", "spares the launcher process"],
  ["huge_pages", "off", "a wrong huge-page setup kills the server with SIGBUS"],
  ["jit", "off", "the binaries bring no LLVM"],
  ["fsync", "on", "a committed row survives a power cut"],
  ["full_page_writes", "on", ""],
  ["synchronous_commit", "on", ""],
  ["wal_level", "replica", "allows pg_basebackup"],
  ["max_wal_size", "512MB", "bounds the disk the log of changes takes"],
  ["min_wal_size", "64MB", ""],
  ["timezone", "'UTC'", ""],
  ["log_timezone", "'UTC'", ""],
  ["logging_collector", "off", "standard error is our log file, which the nodes keep short"],
  ["log_destination", "'stderr'", ""],
  ["log_min_messages", "log", "a failed statement is the caller's to report, and may hold what people wrote"],
  ["log_min_error_statement", "panic", "never the text of a statement"],
  ["log_checkpoints", "off", ""],
  ["log_line_prefix", "'%m [%p] '", ""],
];

export function settingsText(): string {
  const lines = SETTINGS.map(([name, value, why]) => `${name} = ${value}${why === "" ? "" : `  # ${why}`}`);
  return `# Written by Signalbox before each start. Use ALTER SYSTEM to change a setting.\n${lines.join("\n")}\n`;
}
