import { ApiError, api } from './api';
import { KEYS, session, storeSession } from './storage';

const TERMINAL = [
  'invitation_invalid', 'invitation_expired', 'invitation_revoked', 'invitation_used', 'invitation_email_mismatch',
];

export function isTerminalInvitationError(error: unknown): string | null {
  return error instanceof ApiError && TERMINAL.includes(String(error.code)) ? String(error.code) : null;
}

export function pendingInvitation(): string | null {
  return session.get(KEYS.invitation);
}

/** Accepts a pending invitation with the stored token; the answer carries a new one. Null where none is pending. */
export async function acceptPending(): Promise<string | null> {
  const token = pendingInvitation();
  if (!token) return null;
  const data = await api.post<{ token?: string; workspace_uuid: string }>('/invitations/accept', { token });
  if (data.token) storeSession(data.token);
  session.remove(KEYS.invitation);
  return data.workspace_uuid;
}
