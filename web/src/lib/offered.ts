// What this server can do of all that its forms describe. A part that arrives in the server is added here; until then
// the panel does not show it, and stored values of it pass through untouched.

const RUNNERS = new Set(['local-agent']);

const FIELD_TYPES_NOT_OFFERED = new Set([
  'qr-code-login',
  'plugin-selector',
  'tools-selector',
  'resources-selector',
  'knowledge-base-selector',
  'knowledge-base-multi-selector',
  'file',
  'array[file]',
]);

export function isFieldTypeOffered(type: string): boolean {
  return !FIELD_TYPES_NOT_OFFERED.has(type);
}

/** A runner that is chosen already stays in the list: hiding it would look as if another one were chosen. */
export function offeredRunners<T extends { name: string }>(options: T[], chosen?: unknown): T[] {
  return options.filter((option) => RUNNERS.has(option.name) || (option.name !== '' && option.name === chosen));
}
