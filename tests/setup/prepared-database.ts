/**
 * Runs once before the files of every test kind that needs PostgreSQL: prepares the server and the migrated
 * database each test file is cloned from. Whatever is started here is stopped by `teardown`.
 */
export async function setup(): Promise<void> {}

export async function teardown(): Promise<void> {}
