import { describe, expect, it } from 'vitest';
import { bucketize, groupTurns, hasContent, parseChain } from './turns';
import type { MonCall, MonError, MonMessage, MonTool } from './types';

const at = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, '0')}`;
const plain = (text: string) => JSON.stringify([{ type: 'Plain', text }]);
const message = (id: string, second: number, role: string | null, part: Partial<MonMessage> = {}) =>
  ({ id, timestamp: at(second), role, session_id: 's', message_content: plain(id), status: 'success', ...part }) as MonMessage;
const call = (id: string, second: number, part: Partial<MonCall> = {}) =>
  ({ id, timestamp: at(second), session_id: 's', message_id: null, total_tokens: 10, duration: 100, status: 'success', ...part }) as MonCall;

describe('turns', () => {
  it('start with a user message; replies and calls join the latest turn of their session', () => {
    const turns = groupTurns(
      [message('u2', 20, 'user'), message('a1', 5, 'assistant'), message('u1', 1, 'user'), message('a1b', 6, 'assistant')],
      [call('c1', 3, { message_id: 'u1', total_tokens: 790, duration: 600 }), call('c2', 21)],
      [{ id: 't', timestamp: at(4), session_id: 's', message_id: null, duration: 240, status: 'success' } as MonTool],
      [],
    );
    expect(turns.map((turn) => turn.id)).toEqual(['u2', 'u1']);
    expect(turns[1]?.replies.map((r) => r.id)).toEqual(['a1', 'a1b']);
    expect(turns[1]).toMatchObject({ tokens: 790, duration: 840, status: 'success' });
    expect(turns[1]?.tools).toHaveLength(1);
    expect(turns[0]?.calls.map((c) => c.id)).toEqual(['c2']);
  });

  it('are errors when anything in them failed', () => {
    const error = { id: 'e', timestamp: at(2), session_id: 's', message_id: 'u1' } as MonError;
    expect(groupTurns([message('u1', 1, 'user')], [], [], [error])[0]?.status).toBe('error');
    expect(groupTurns([message('u1', 1, 'user', { status: 'pending' })], [], [], [])[0]?.status).toBe('pending');
  });

  it('keep sessions apart and drop messages without content', () => {
    const turns = groupTurns(
      [message('a', 1, 'user'), message('b', 2, 'assistant', { session_id: 'other' }), message('x', 3, 'user', { message_content: '[{"type":"Source"}]' })],
      [], [], [],
    );
    expect(turns).toHaveLength(2);
    expect(turns.find((turn) => turn.sessionId === 'other')?.user).toBeNull();
  });
});

describe('chains', () => {
  it('survive whatever is stored', () => {
    expect(parseChain('not json')).toEqual([{ type: 'Plain', text: 'not json' }]);
    expect(parseChain('')).toEqual([]);
    expect(hasContent('[]')).toBe(false);
    expect(hasContent('""')).toBe(false);
    expect(hasContent(plain('x'))).toBe(true);
  });
});

describe('buckets', () => {
  it('cover the range, empty slots too', () => {
    const from = Date.parse(`${at(0)}Z`);
    const buckets = bucketize([{ timestamp: at(1) }, { timestamp: at(2) }], [{ timestamp: at(3) }], from, from + 3_600_000);
    expect(buckets).toHaveLength(13);
    expect(buckets[0]).toMatchObject({ messages: 2, calls: 1 });
    expect(buckets[5]).toMatchObject({ messages: 0, calls: 0 });
  });
});
