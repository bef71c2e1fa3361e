import i18n from './i18n';
import { ApiError } from './api';

/** One sentence for the user: what went wrong, in the panel's language where the code is known. */
export function errorText(error: unknown): string {
  if (!(error instanceof ApiError)) return String((error as Error)?.message ?? error);
  // The server uses the code -1 as well, for plain refusals: only the missing status tells that nobody answered.
  if (error.status === 0) {
    return i18n.t(error.message === 'timeout' ? 'error.timeout' : 'error.network');
  }
  if (typeof error.code === 'string') {
    const key = `code.${error.code}`;
    if (i18n.exists(key)) {
      const limit = /\((\d+)\)/.exec(error.message)?.[1];
      const permission = /permission:\s*(\S+)/.exec(error.message)?.[1];
      const text = i18n.t(key, { limit: limit ?? '', permission: permission ?? '', message: error.message });
      return error.code === 'internal_error' && error.requestId ? `${text} (${error.requestId})` : text;
    }
  }
  const byText: Record<string, string> = {
    'Invalid username or password': 'error.badLogin',
    'Account is disabled': 'error.accountDisabled',
    'System already initialized': 'error.alreadyInitialized',
    'Invalid recovery key': 'error.badRecoveryKey',
    'User not found': 'error.userNotFound',
    'Current password is incorrect': 'error.badCurrentPassword',
    'Too many attempts, try again later': 'error.tooManyAttempts',
  };
  const known = byText[error.message];
  if (known) return i18n.t(known);
  if (error.status === 429) return i18n.t('error.tooManyAttempts');
  if (error.status >= 500) return i18n.t('error.server', { message: error.message });
  return error.message || i18n.t('error.unknown');
}
