/** Bounds that a schema states and a decision repeats: written once, for both. */
export const INPUT_LIMITS = {
  metadataCount: 16,
  metadataKeyChars: 64,
  metadataValueChars: 512,
  instructionsChars: 200_000,
  toolCount: 128,
  maxOutputTokens: 200_000,
} as const;
