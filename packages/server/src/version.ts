/** The release, the same for all packages. */
export const VERSION = "0.1.0";
